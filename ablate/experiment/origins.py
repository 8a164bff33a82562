"""The files of the networks that a study samples, as they were when it began.

What a study draws comes from memory, so a file that changes meanwhile changes no result. But the
same command would not continue it: another file makes another study. So the study stops before its
next trial, while the one who changed the file may still remember what was there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ablate.core.errors import UserError
from ablate.models.bundle import file_hash


class Stamp(NamedTuple):
    """What changes with a file, and is looked up at no cost."""

    modified: int  # nanoseconds
    size: int
    number: int  # of the file on its disk: another after a replacement


class Origins:
    """The files that a study began with."""

    def __init__(self, hashes: Mapping[Path, str]) -> None:
        """hashes: of each file, as it was when it was read."""
        self._hashes = hashes
        self._seen: dict[Path, Stamp] = {}

    def require(self) -> None:
        """Raise an error if a file is not the one that the study began with any more."""
        for path, wanted in self._hashes.items():
            try:
                stamp = _stamp(path)
                if stamp == self._seen.get(path):
                    continue
                same, what = file_hash(path) == wanted, "has changed"
            except OSError:
                same, what = False, "is gone"
            if not same:
                raise UserError(
                    f"{path} {what} since the study began with it ({wanted}): put it back and the"
                    " same command continues; with another file it begins another study"
                )
            self._seen[path] = stamp


def _stamp(path: Path) -> Stamp:
    about = path.stat()
    return Stamp(about.st_mtime_ns, about.st_size, about.st_ino)
