"""Ctrl-C that waits for what must not be cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def shielded() -> Iterator[None]:
    """SIGINT and SIGTERM take effect at the end of the block: one in the middle of a write would
    leave MLflow's database locked, and what was written half said."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    caught: list[int] = []
    before = {s: signal.signal(s, lambda number, _: caught.append(number)) for s in SIGNALS}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
        for number in caught:
            signal.raise_signal(number)
