"""Ctrl-C inside a shield takes effect at its end, and only then."""

from __future__ import annotations

import signal
import threading

import pytest

from ablate.core.signals import SIGNALS, shielded


def test_a_signal_waits_for_the_end_of_the_outermost_block() -> None:
    done = []

    def work() -> None:
        with shielded():
            with shielded():
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")
        done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(s) for s in SIGNALS]
    with pytest.raises(ValueError, match="mine"), shielded():
        raise ValueError("mine")
    assert [signal.getsignal(s) for s in SIGNALS] == before


def test_other_threads_have_nothing_to_shield() -> None:
    seen = []

    def work() -> None:
        with shielded():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
