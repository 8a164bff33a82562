"""Throw-away servers on the loopback: PostgreSQL and MLflow, real ones."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

PASSWORD = "kept-from-logs"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def postgres_programs() -> Path | None:
    """Where Debian keeps them; it puts none of them on the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


class Postgres:
    """A cluster of its own, reached by password only."""

    def __init__(self, durable: bool) -> None:
        """In a folder that PostgreSQL's own user may enter, as pytest's are not."""
        self._fsync = "on" if durable else "off"
        self._programs, self._port = postgres_programs(), free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="ablate-postgres-"))
        self.folder.chmod(0o755)
        self._folder = self.folder / "cluster"
        self._folder.mkdir()
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:  # which PostgreSQL refuses to run as
            shutil.chown(self._folder, "postgres", "postgres")
            shutil.chown(secret, "postgres")
        self._run("initdb", "-D", "-U", "boss", "--auth=scram-sha-256", f"--pwfile={secret}")
        self.start()
        self.url = f"postgresql://boss:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    def _run(self, program: str, *arguments: str) -> None:
        assert self._programs is not None
        command = [str(self._programs / program)]
        for argument in arguments:
            command += [argument, str(self._folder)] if argument == "-D" else [argument]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        log = self._folder.parent / "postgres.log"
        with log.open("a") as out:
            subprocess.run(command, check=True, stdout=out, stderr=out, cwd="/")

    def start(self) -> None:
        own = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        own += f" -c fsync={self._fsync}"
        self._run("pg_ctl", "-D", "-w", "-l", str(self._folder / "log"), "-o", own, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "-w", "-m", "immediate", "stop")


@contextmanager
def postgres(durable: bool = False) -> Iterator[Postgres]:
    """`durable`: as it comes, every commit on the disk; else sooner done."""
    server = Postgres(durable)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder)


class Mlflow:
    """A server that hands artifacts through, so that workers need no disk in common."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
        command += ["--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--backend-store-uri", f"sqlite:///{self._folder / 'mlflow.db'}"]
        command += ["--artifacts-destination", str(self._folder / "artifacts")]
        self._log = (self._folder / "mlflow.log").open("a")
        jobs = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # five processes for nothing
        self._process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            env=os.environ | jobs,
        )
        deadline = time.monotonic() + 120
        while True:
            try:
                with urlopen(f"{self.url}/health", timeout=5):
                    return
            except (URLError, OSError):
                assert self._process.poll() is None, "the MLflow server did not start"
                assert time.monotonic() < deadline
                time.sleep(0.2)

    def stop(self) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait()
        self._log.close()


@contextmanager
def mlflow(folder: Path) -> Iterator[Mlflow]:
    server = Mlflow(folder)
    try:
        yield server
    finally:
        server.stop()
