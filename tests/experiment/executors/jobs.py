"""Jobs for tests of executors: what they import, other processes can import, too."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.experiment.executors.executor import Executor, Job


@dataclass(frozen=True)
class Word:
    """What the jobs share."""

    text: str

    def on(self, device: str) -> Word:
        return Word(f"{self.text} on {device}")


@dataclass(frozen=True)
class Say:
    """The shared word, the number and the process, after a while."""

    number: int
    seconds: float = 0.0

    def __call__(self, word: Word) -> tuple[str, int, int]:
        time.sleep(self.seconds)
        return word.text, self.number, os.getpid()


@dataclass(frozen=True)
class Raise:
    """Raises an exception."""

    text: str

    def __call__(self, word: Word) -> None:
        raise ZeroDivisionError(self.text)


@dataclass(frozen=True)
class Die:
    """Kills its process, as often as `times` says: a file counts."""

    file: Path
    times: int

    def __call__(self, word: Word) -> str:
        with self.file.open("a") as file:
            file.write("x")
        if len(self.file.read_text()) <= self.times:
            os.kill(os.getpid(), signal.SIGKILL)
        return "alive"


@dataclass(frozen=True)
class Shaky:
    """A job that raises at first, as often as `times` says: a file counts."""

    job: Callable[[Any], Any]
    file: Path
    times: int

    def __call__(self, shared: Any) -> Any:
        with self.file.open("a") as file:
            file.write("x")
        if len(self.file.read_text()) <= self.times:
            raise RuntimeError("no luck")
        return self.job(shared)


@dataclass(frozen=True)
class Deadly:
    """A job in the place of one that kills its process, whatever it does."""

    job: Callable[[Any], Any]

    def __call__(self, shared: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Replacing:
    """An executor that replaces some of the jobs that it is given, by their number from 1 on."""

    here = False

    def __init__(self, executor: Executor, replace: Callable[[int, Job], Job]) -> None:
        self._executor, self._replace, self._given = executor, replace, 0

    @property
    def slots(self) -> int:
        return self._executor.slots

    @property
    def threads(self) -> int:
        return self._executor.threads

    @property
    def local(self) -> bool:
        return self._executor.local

    def submit(self, job: Job) -> Future[Any]:
        self._given += 1
        return self._executor.submit(self._replace(self._given, job))

    def close(self) -> None:
        self._executor.close()
