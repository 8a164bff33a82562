"""A full disk, said as such: databases wrap the system's error in errors of their own."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT}
WORDS = ("disk is full", "no space left on device", "disk quota exceeded")


def is_full(error: BaseException) -> bool:
    """Whether an error, or one of those that led to it, is that of a full disk."""
    return any(
        (isinstance(each, OSError) and each.errno in FULL)
        or any(word in str(each).lower() for word in WORDS)
        for each in chain(error)
    )


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that led to it."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def full(folder: Path | str | None, needed: int | None = None) -> str:
    """The disk of /data/mlruns is full (0 MB left; …): make room.

    folder: where, or a file there; None if it is not known. needed: bytes of the whole work.
    """
    try:
        left = f"{shutil.disk_usage(folder or '.').free / 1e6:,.0f} MB left"
    except OSError:
        left = "free space unknown"
    if needed is not None:
        left += f"; about {max(1, needed / 1e6):,.0f} MB are needed in all"
    return f"the disk{f' of {folder}' if folder else ''} is full ({left}): make room"
