"""When a run began and ended, as tags of a study's results."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def times(run: Any) -> dict[str, str]:
    """`began` and `ended` of an MLflow run, in UTC to the second; no end while it is running."""
    stamps = {"began": run.info.start_time, "ended": run.info.end_time}
    return {name: _written(stamp) for name, stamp in stamps.items() if stamp}


def _written(milliseconds: int) -> str:
    """2026-11-18 20:15:03 UTC"""
    return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
