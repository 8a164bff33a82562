"""When a study began and ended, and how long of that it was at work."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any


def times(run: Any) -> dict[str, str]:
    """`began` and `ended` of an MLflow run, in UTC to the second; no end while it is running."""
    stamps = {"began": run.info.start_time, "ended": run.info.end_time}
    return {name: _written(stamp) for name, stamp in stamps.items() if stamp}


def at_work(spans: Iterable[tuple[int | None, int | None]]) -> float:
    """Seconds that any of these spans of milliseconds covers; one without an end does not count."""
    total = reached = 0
    for began, ended in sorted((b, e) for b, e in spans if b and e):
        total += max(ended - max(began, reached), 0)
        reached = max(reached, ended)
    return total / 1000


def _written(milliseconds: int) -> str:
    """2026-11-18 20:15:03 UTC"""
    return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
