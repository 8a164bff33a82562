"""Files that are written whole or not at all, and locks that one process holds at a time."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ablate.core.errors import UserError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a scratch path beside `path` that replaces it at the end of the block, in one step.

    If the process is killed, the old file (or none) is left, never half of the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        with scratch.open("rb") as written:
            os.fsync(written.fileno())
        scratch.chmod(0o644)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def make_whole(path: Path, make: Callable[[Path], None]) -> None:
    """Call `make` to write `path` unless it exists: whole or not at all, in one process only."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with waiting(path.with_name(f".{path.name}.lock")):
        if not path.exists():  # another process may have written it meanwhile
            _sweep(path)
            with whole_file(path) as scratch:
                make(scratch)


def _sweep(path: Path) -> None:
    """Delete what processes left that were killed while they made `path`: the lock shows that none
    is at it. SQLite puts a journal beside a scratch file."""
    scratch = re.compile(rf"\.{re.escape(path.name)}\.\w{{8}}(-journal|-wal|-shm)?", re.ASCII)
    for file in path.parent.iterdir():
        if scratch.fullmatch(file.name):
            file.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock, or raise an error if another process holds it; it ends with the process.

    what: the start of the message, such as "digits is being trained".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{what} by another process (it holds {path})") from None
        yield


@contextmanager
def waiting(path: Path) -> Iterator[None]:
    """Hold a lock, and wait for it as long as another process holds it."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Hold a lock unless another process holds it; yields whether this one does."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def folder_lock(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a folder itself, which the system frees if this process is killed; yields
    whether this process holds it."""
    opened, mine = os.open(folder, os.O_RDONLY), True
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            mine = False
        yield mine
    finally:
        os.close(opened)


def turn(database: Path) -> AbstractContextManager[None]:
    """Hold the lock under which processes write to a database file, one after the other.

    SQLite alone makes writers retry at growing intervals; with this lock the next one is woken as
    soon as the last has finished.
    """
    return waiting(database.with_name(f".{database.name}.turn"))
