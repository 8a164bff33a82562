"""Ctrl-C that waits for what must not be cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


_caught: list[int] = []  # by the shield in force


def _catch(number: int, _: object) -> None:
    _caught.append(number)


@contextmanager
def shielded() -> Iterator[None]:
    """SIGINT and SIGTERM take effect at the end of the outermost block: one in the middle of a
    write would leave MLflow's database locked, and what was written half said."""
    main = threading.current_thread() is threading.main_thread()  # which alone gets signals
    if not main or signal.getsignal(signal.SIGINT) is _catch:
        yield
        return
    before = {s: signal.signal(s, _catch) for s in SIGNALS}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
        numbers = list(_caught)
        _caught.clear()
        for number in numbers:
            signal.raise_signal(number)


def let_through() -> None:
    """Whoever waits within a shield, with nothing written, is interrupted by what it has caught."""
    if _caught and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
