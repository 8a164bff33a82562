"""What a machine has run out of or does not permit, said as such in one line."""

from __future__ import annotations

import errno
from pathlib import Path

from ablate.core.disk import chain, full, is_full
from ablate.core.errors import first_line

FILES = {errno.EMFILE, errno.ENFILE}
REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}
MEMORY = (
    *("can't allocate memory", "cannot allocate memory", "not enough memory", "out of memory"),
    *("bad_alloc", "failed to map segment", "can't start new thread"),
)
"""Words of the messages of libraries that have an error of their own for it."""


def lacking(error: BaseException) -> str | None:
    """The line for an error that the machine is the reason of; None for any other."""
    causes = list(chain(error))
    codes = {each.errno for each in causes if isinstance(each, OSError)}
    if is_full(error):
        files = (each.filename for each in causes if isinstance(each, OSError) and each.filename)
        return full(next((Path(str(file)).parent for file in files), None))
    if any(map(_of_memory, causes)) or errno.ENOMEM in codes:
        return f"out of memory ({first_line(error)[:200]}): free some, or draw fewer samples"
    if codes & FILES:
        return f"{first_line(error)[:200]}: allow more open files (ulimit -n)"
    if codes & REFUSED:
        return f"{first_line(error)[:300]}: name a place that may be written to"
    return None


def _of_memory(error: BaseException) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(each in words for each in MEMORY)
