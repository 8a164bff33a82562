"""Configurations that a search proposes more than once: each repetition gets further seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ablate.search import Entry
from ablate.study.definition import Study


class Replicate(NamedTuple):
    """Which seeds a trial draws, and which trial it repeats."""

    repeats: int | None  # the first trial of the same configuration
    seeds: tuple[int, ...]


def replicate(study: Study, entry: Entry, entries: Sequence[Entry]) -> Replicate:
    """The study's seeds for the first trial of a configuration, the next ones for the second, …"""
    alike = [
        other.number
        for other in entries
        if other.number < entry.number and other.params == entry.params and other.confirms is None
    ]
    stride = len(alike) * (max(study.seeds) + 1)
    seeds = tuple((seed + stride) % 2**32 for seed in study.seeds)
    return Replicate(alike[0] if alike else None, seeds)


def firsts(entries: Sequence[Entry]) -> list[Entry]:
    """The first trial of every configuration: the one with the study's own seeds."""
    return list({str(entry.params): entry for entry in reversed(entries)}.values())
