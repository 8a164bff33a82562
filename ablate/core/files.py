"""Files that are whole or not there, and files that one process holds."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ablate.core.errors import UserError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A scratch path beside `path` that replaces it at the end of the block, in one step.

    A kill leaves the old file, or none; never half of the new one.
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
    """Unless `path` is there, `make` makes it: all of it or nothing, once, whoever else tries."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with waiting(path.with_name(f".{path.name}.lock")):
        if not path.exists():  # while this one waited
            with whole_file(path) as scratch:
                make(scratch)


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """One process at a time; the lock goes with the process, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{what} by another process (it holds {path})") from None
        yield


@contextmanager
def waiting(path: Path) -> Iterator[None]:
    """As `locked`, but one waits for one's turn."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def turn(database: Path) -> AbstractContextManager[None]:
    """To write to a database in a file, one after the other. SQLite by itself has writers ask again
    at growing intervals; here the next is woken as the last is done."""
    return waiting(database.with_name(f".{database.name}.turn"))
