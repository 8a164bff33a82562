"""Jobs for tests of executors: what they import, other processes can import, too."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


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
