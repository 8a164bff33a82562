"""Real PostgreSQL and MLflow servers on the loopback, for one test or a few."""

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
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's programs: on the PATH, or where Debian installs them."""
    if initdb := shutil.which("initdb"):
        return Path(initdb).parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


class Postgres:
    """A new cluster, which asks for a password."""

    def __init__(self, durable: bool) -> None:
        """The cluster is in a folder that PostgreSQL's user may enter; pytest's folders are not."""
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
        self._server = f"postgresql://boss:{PASSWORD}@127.0.0.1:{self._port}"
        self.url = f"{self._server}/postgres"
        self._databases = 0

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        import psycopg

        self._databases += 1
        name = f"database{self._databases}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"{self._server}/{name}"

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
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        options += f" -c fsync={self._fsync}"
        self._run("pg_ctl", "-D", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "-w", "-m", "immediate", "stop")


@contextmanager
def postgres(durable: bool = False) -> Iterator[Postgres]:
    """A running server. `durable`: it waits for the disk at every commit, as by default."""
    server = Postgres(durable)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder)


class Mlflow:
    """A tracking server that also serves artifacts, so that workers need no common disk."""

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
        jobs = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # saves five processes
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
