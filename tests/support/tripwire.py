"""Kills that work triggers: a process dies of SIGKILL at a chosen moment of its work.

`Tripwire` wraps the functions of `PLACES` in the process in which it is laid. The innermost one
that is running is where the process is; it is written to a file in shared memory at every entry and
exit, so that the file tells where a kill landed however the process ended.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

PLACES = {
    "claimed": ("experiment.trial:Runner.run",),  # a lease is held, and nothing is written yet
    "cell": ("experiment.cell_attempts:run_cell",),
    "rung": ("experiment.cell:_of_few",),
    "flight": ("experiment.flights:wait",),  # cells are drawn elsewhere, and waited for
    "files": ("experiment.cell_attempts:record_files",),
    "record": (
        *("tracking.study_run:StudyRun.open_trial", "tracking.study_run:StudyRun.open_cell"),
        *("tracking.writer:Tracker.close", "experiment.cell_attempts:CellAttempts.close"),
    ),
    "search": (
        *("search.ledger:Ledger.complete", "search.ledger:Ledger.prune"),
        *("search.ledger:Ledger.propose_next",),
    ),
}
"""Place -> the functions in which it is."""

CELL, WRITE = ("cell", "rung", "flight"), ("files", "record", "search")
"""Places inside a cell, and inside a write."""

LENGTH = 16
"""Bytes of the name of a place."""


class Tripwire(NamedTuple):
    """Kills its process `delay` seconds after it has entered a place for the n-th time."""

    place: str
    times: int
    delay: float
    file: Path  # that tells where it is

    def lay(self) -> None:
        """Lay it in this process."""
        self.file.write_bytes(bytes(LENGTH))
        with self.file.open("r+b") as opened:
            walk = Walk(self, mmap.mmap(opened.fileno(), LENGTH))
        for place, functions in PLACES.items():
            for function in functions:
                module, _, path = function.partition(":")
                owner: Any = import_module(f"ablate.{module}")
                *classes, name = path.split(".")
                for each in classes:
                    owner = getattr(owner, each)
                setattr(owner, name, walk.through(place, getattr(owner, name)))

    def landed(self) -> str:
        """Where the process was at its end; empty: in none of the places."""
        return self.file.read_bytes().rstrip(b"\0").decode()


class Walk:
    """The way of a process through the places."""

    def __init__(self, wire: Tripwire, shared: mmap.mmap) -> None:
        self._wire, self._shared, self._left = wire, shared, wire.times
        self._places = [""]

    def through(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which says when it is entered and left."""

        @wraps(function)
        def entered(*arguments: Any, **named: Any) -> Any:
            self._places.append(place)
            self._tell()
            self._count(place)
            try:
                return function(*arguments, **named)
            finally:
                self._places.pop()
                self._tell()

        return entered

    def _tell(self) -> None:
        self._shared[:LENGTH] = self._places[-1].encode().ljust(LENGTH, b"\0")

    def _count(self, place: str) -> None:
        self._left -= place == self._wire.place
        if self._left == 0 and place == self._wire.place:
            threading.Thread(target=self._kill, daemon=True).start()

    def _kill(self) -> None:
        time.sleep(self._wire.delay)
        os.kill(os.getpid(), signal.SIGKILL)
