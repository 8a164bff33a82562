"""Waiting for servers that are away: how long, and when they are asked again."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator

from ablate.core.errors import UserError
from ablate.core.signals import let_through

PATIENCE = "ABLATE_PATIENCE_SECONDS"
"""Environment variable: seconds that a server may be away before a study stops."""

PAUSES = 0.05, 5.0
"""Seconds between two attempts: the first pause, which doubles each time, and the longest."""


def longest_wait() -> float:
    """Seconds that a server may be away before a study stops. The same command continues."""
    return seconds(PATIENCE, 300.0)


def seconds(variable: str, default: float) -> float:
    """Seconds from an environment variable; an error if it has no number of them."""
    text = os.environ.get(variable, "")
    try:
        found = float(text or default)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise UserError(f"{variable} = {text[:40]!r}: must be a number of seconds, such as 300")
    return found


def attempts(longest: float) -> Iterator[bool]:
    """Yield before each attempt, with growing pauses; True before the last, when `longest` seconds
    are over. Ctrl-C ends the wait, also within a shield."""
    until, pause = time.monotonic() + longest, PAUSES[0]
    while True:
        yield time.monotonic() >= until
        let_through()
        time.sleep(pause)
        pause = min(2 * pause, PAUSES[1])
