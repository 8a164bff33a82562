"""Configurations that a search proposes more than once: each repetition gets further seeds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from pydantic import ValidationError

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
        if other.number < entry.number
        and other.confirms is None
        and same_as(study, other) == same_as(study, entry)
    ]
    stride = len(alike) * (max(study.seeds) + 1)
    seeds = tuple((seed + stride) % 2**32 for seed in study.seeds)
    return Replicate(alike[0] if alike else None, seeds)


def firsts(study: Study, entries: Sequence[Entry]) -> list[Entry]:
    """The first trial of every configuration: the one with the study's own seeds."""
    return list({same_as(study, entry): entry for entry in reversed(entries)}.values())


def same_as(study: Study, entry: Entry) -> str:
    """What trials of the same configuration share. Values of `left` that give the same n do."""
    params = dict(entry.params)
    if "left" in params:
        with suppress(ValidationError):  # the trial has failed
            params["left"] = study.settings(params).n or 0
    return str(params)
