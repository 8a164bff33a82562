"""Blocks of code that Ctrl-C does not interrupt: it takes effect at their end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


_caught: list[int] = []  # signals received inside the current shield


def _catch(number: int, _: object) -> None:
    _caught.append(number)


@contextmanager
def shielded() -> Iterator[None]:
    """Delay SIGINT and SIGTERM to the end of the outermost block.

    In the middle of a write one of them would leave MLflow's database locked and a record
    incomplete.
    """
    main = threading.current_thread() is threading.main_thread()  # only it gets signals
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
    """Raise KeyboardInterrupt if a signal is delayed: for waits inside a shield between writes."""
    if _caught and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
