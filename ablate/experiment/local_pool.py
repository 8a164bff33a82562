"""Several workers on this machine: the same command in as many processes, told apart by nothing.

They share the study as workers on other machines would. Ctrl-C goes to the one who started them; if
that one is killed, they stop by themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ablate.core.errors import PassingError, UserError
from ablate.core.signals import shielded
from ablate.core.workspace import Workspace

POLL = 0.5
STOPPED = 130
TRIALS_FAILED = 3
"""What a worker returns if a trial failed: 1 is an exception that nobody caught."""


def run(
    workspace: Workspace, arguments: Sequence[str], devices: Sequence[str], look: Callable[[], None]
) -> list[str]:
    """`ablate study` with these arguments, one process for each device; `look` is called all the
    while. Tells which were killed. URLs go by the environment: arguments can be seen by everybody
    on the machine."""
    threads = str(max(1, (os.cpu_count() or 1) // len(devices)))
    surroundings = {"OMP_NUM_THREADS": threads, **os.environ, PARENT: str(os.getpid())}
    if workspace.storage:
        surroundings |= {
            "ABLATE_STORAGE": workspace.storage,
            "MLFLOW_TRACKING_URI": workspace.tracking,
        }
    command = [sys.executable, "-m", "ablate", "--root", str(workspace.root), "study", *arguments]
    with ExitStack() as files:
        said = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in devices]
        with shielded():
            team = [
                subprocess.Popen(
                    [*command, "--device", device, "--worker"],
                    env=surroundings,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )
                for device, errors in zip(devices, said, strict=True)
            ]
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
        for place, (worker, errors) in enumerate(zip(team, said, strict=True)):
            errors.seek(0)
            _complain(place, worker.returncode, errors.read())
        return [
            f"worker {place} was killed ({signal.Signals(-worker.returncode).name})"
            for place, worker in enumerate(team)
            if worker.returncode < 0
        ]


def _complain(place: int, code: int, errors: str) -> None:
    """Unless the worker ended as it should, or was killed: others may have done its work."""
    if code > 0 and code not in (TRIALS_FAILED, STOPPED):
        last = (errors.strip().splitlines() or ["it said nothing"])[-1]
        kind = PassingError if code == PassingError.code else UserError
        raise kind(f"worker {place}: {last.removeprefix('error: ')}")


PARENT = "ABLATE_PARENT"
"""Tells a worker who started it: that one may be gone before the worker can ask."""


def obey() -> None:
    """As one of them: stop when told to by the one who started it, or when that one is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mine = int(os.environ[PARENT])

    def watch() -> None:
        while os.getppid() == mine:
            time.sleep(POLL)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
