"""Waiting for servers: how long, and that it ends."""

from __future__ import annotations

import itertools
import time

import pytest

from ablate.core.errors import UserError
from ablate.core.patience import PATIENCE, attempts, longest_wait


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.pauses = 1000.0, list[float]()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_pauses_grow_to_five_seconds_and_the_last_attempt_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, seen = Clock(monkeypatch), list[bool]()
    for last in attempts(30.0):
        seen.append(last)
        if last:
            break
    assert clock.pauses[:3] == [0.05, 0.1, 0.2]
    assert max(clock.pauses) == 5.0
    assert seen == [False] * len(clock.pauses) + [True]
    assert 30 <= sum(clock.pauses) < 35


def test_no_patience_is_one_attempt() -> None:
    assert list(itertools.islice(attempts(0.0), 1)) == [True]


def test_the_environment_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATIENCE, raising=False)
    assert longest_wait() == 300
    monkeypatch.setenv(PATIENCE, "2.5")
    assert longest_wait() == 2.5


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_what_is_no_number_of_seconds_is_one_line(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATIENCE, text)
    with pytest.raises(UserError, match=rf"{PATIENCE} = '{text}': must be a number of seconds"):
        longest_wait()
