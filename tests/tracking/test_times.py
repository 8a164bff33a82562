"""Seconds of work, from the spans of the runs."""

from __future__ import annotations

from ablate.tracking.times import at_work


def test_overlaps_count_once_and_gaps_and_open_spans_not_at_all() -> None:
    parallel = [(1000, 5000), (2000, 3000), (4000, 7000)]
    assert at_work([*parallel, (100_000, 101_000), (200_000, None), (None, 3000)]) == 7.0
    assert at_work([]) == 0.0
