"""Workers of one machine: the same command in several processes.

They share the study as workers on other machines do. Ctrl-C goes to the parent, which stops them.
If the parent is killed, they stop by themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO

from ablate.core.errors import PassingError, UserError
from ablate.core.signals import shielded
from ablate.core.workspace import Workspace

POLL = 0.5
"""Seconds between checks whether the workers, or their parent, are still there."""

STOPPED = 130
"""Exit code of a worker that was stopped by a signal."""

TRIALS_FAILED = 3
"""Exit code of a worker with a failed trial: 1 is an uncaught exception."""

PARENT = "ABLATE_PARENT"
"""Environment variable with the parent's process number: the parent may end before a worker can
ask for it."""


KEY = "ABLATE_STUDY_KEY"
"""Environment variable with the key of the parent's study: each worker reads file and bundle
anew."""


def run(
    workspace: Workspace,
    key: str,
    arguments: Sequence[str],
    devices: Sequence[str],
    look: Callable[[], None],
) -> list[str]:
    """Run `ablate study` with these arguments in one process for each device, and call `look` while
    they run. Returns a line for each worker that was killed. key: of the study, which must be
    theirs, too."""
    command = [sys.executable, "-m", "ablate", "--root", str(workspace.root), "study", *arguments]
    with ExitStack() as files:
        logs = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in devices]
        team = _start(command, devices, _environment(workspace, key, len(devices)), logs)
        try:
            while any(worker.poll() is None for worker in team):
                time.sleep(POLL)
                look()
        finally:
            for worker in team:
                worker.terminate()
            for worker in team:
                worker.wait()
        look()
        for index, (worker, log) in enumerate(zip(team, logs, strict=True)):
            log.seek(0)
            _complain(index, worker.returncode, log.read())
        return [
            f"worker {index} was killed ({signal.Signals(-worker.returncode).name})"
            for index, worker in enumerate(team)
            if worker.returncode < 0
        ]


def _start(
    command: Sequence[str],
    devices: Sequence[str],
    environment: Mapping[str, str],
    logs: Sequence[IO[str]],
) -> list[subprocess.Popen[bytes]]:
    with shielded():
        return [
            subprocess.Popen(
                [*command, "--device", device, "--worker"],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
            for device, log in zip(devices, logs, strict=True)
        ]


def _environment(workspace: Workspace, key: str, workers: int) -> dict[str, str]:
    """The workers' environment. URLs are in it, because every user of the machine can see the
    arguments of a process."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    environment = {"OMP_NUM_THREADS": threads, **os.environ, PARENT: str(os.getpid()), KEY: key}
    if workspace.storage:
        environment |= {
            "ABLATE_STORAGE": workspace.storage,
            "MLFLOW_TRACKING_URI": workspace.tracking,
        }
    return environment


def _complain(index: int, code: int, errors: str) -> None:
    """Raise a worker's error. A worker that was killed is no error: others may do its work."""
    if code > 0 and code not in (TRIALS_FAILED, STOPPED):
        last = (errors.strip().splitlines() or ["it printed nothing"])[-1]
        kind = PassingError if code == PassingError.code else UserError
        raise kind(f"worker {index}: {last.removeprefix('error: ')}")


def obey(key: str) -> None:
    """Make this process a worker of its parent: it ignores Ctrl-C, and stops when the parent
    terminates it or is gone. An error if `key` is of another study than the parent's."""
    if key != (wanted := os.environ[KEY]):
        raise UserError(
            f"study {wanted}: its bundle or its file changed while its workers started, which makes"
            f" another study ({key}); run the same command again"
        )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = int(os.environ[PARENT])

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
