"""Several workers on this machine: the same command in as many processes, told apart by nothing.

They share the study as workers on other machines would. Ctrl-C goes to the one who started them; if
that one is killed, they stop by themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from ablate.errors import UserError
from ablate.home import Home
from ablate.interrupts import shielded

POLL = 0.5
STOPPED = 130


def run(
    home: Home, arguments: Sequence[str], devices: Sequence[str], look: Callable[[], None]
) -> None:
    """`ablate study` with these arguments, one process for each device; `look` is called all the
    while. URLs go by the environment: arguments can be seen by everybody on the machine."""
    threads = str(max(1, (os.cpu_count() or 1) // len(devices)))
    surroundings = {"OMP_NUM_THREADS": threads, **os.environ}
    if home.storage:
        surroundings |= {"ABLATE_STORAGE": home.storage, "MLFLOW_TRACKING_URI": home.tracking}
    command = [sys.executable, "-m", "ablate", "--root", str(home.root), "study", *arguments]
    with shielded():
        team = [
            subprocess.Popen(
                [*command, "--device", device, "--worker"],
                env=surroundings,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for device in devices
        ]
    try:
        while any(worker.poll() is None for worker in team):
            time.sleep(POLL)
            look()
    finally:
        for worker in team:
            if worker.poll() is None:
                worker.terminate()
        said = [worker.communicate()[1] for worker in team]
    look()
    for place, (worker, errors) in enumerate(zip(team, said, strict=True)):
        if worker.returncode < 0:
            name = signal.Signals(-worker.returncode).name
            print(f"worker {place} was killed ({name}); the others went on", file=sys.stderr)
        elif worker.returncode not in (0, 1, STOPPED):
            raise UserError(errors.strip().splitlines()[-1].removeprefix("error: "))


def obey(parent: int | None = None) -> None:
    """As one of them: stop when told to by the one who started it, or when that one is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mine = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == mine:
            time.sleep(POLL)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
