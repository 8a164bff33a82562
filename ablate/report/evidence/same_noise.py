"""Samples from the same noise: a row for each configuration, the same eight samples in each.

Sample i of a seed depends on the seed and i alone, so that a column shows what a knob changes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ablate.report.answers.contrast import declared
from ablate.report.answers.wording import FOLLOWING, at, best_at, matched
from ablate.report.blocks import Picture, Pictures
from ablate.report.gallery import Fetch
from ablate.report.knobs import distinguishing, is_scale, varied
from ablate.report.names import (
    configuration,
    estimate,
    knob_name,
    metric_name,
    text,
    trial_name,
)
from ablate.report.ranking import contenders, pruned_trials, ranking
from ablate.results import IMAGES, StudyResults, Trial, Value

COLUMNS = 8
LEAST = 64
"""Pixels of a picture's side, at least; a larger one is not scaled."""

GAP = 4
MOST_KNOBS, MOST_ROWS = 3, 5

ROLES = ("best", "median", "worst", "pruned, the worst", "diverged")
"""Of the trials that stand for all."""

Pixels = Any
"""A row of images, uint8, [n, C, H, W]."""


def pictures(results: StudyResults, fetch: Fetch) -> list[Pictures]:
    """From the best to the worst of all, then along the knobs; rows without images are left out."""
    rows = _rows(results, fetch, _across(results), 0)
    made = [Pictures("From the best to the worst, on the same noise", rows, strips=True)]
    knobs = _knobs(results)
    for place, knob in enumerate(_asked(results), 1 + len(knobs)):
        best = {} if knob in knobs else best_at(results, knob)
        among = {at(knob, value): trial for value, trial in list(best.items())[:MOST_ROWS]}
        title = f"Each {knob_name(knob)} at its best setting of the others, which differ, too"
        made.append(Pictures(title, _rows(results, fetch, among, place), strips=True))
    for place, knob in enumerate(knobs, 1):
        along = {at(knob, value): trial for value, trial in alone(results, knob).items()}
        rows = _rows(results, fetch, along, place)
        made.append(Pictures(_title(results, knob, along), rows, strips=True, compact=True))
    return [group for group in made if len(group.pictures) > 1]


def _title(results: StudyResults, knob: str, along: Mapping[str, Trial]) -> str:
    """Along χ alone: adls, r = 0.65"""
    trial = next(iter(along.values()))
    others = [each for each in distinguishing(results) if each not in (knob, *FOLLOWING)]
    what = configuration(results, trial, others)
    return f"Along {knob_name(knob)} alone" + f": {what}" * bool(what)


def alone(results: StudyResults, knob: str) -> dict[Value, Trial]:
    """Trials that differ in this knob and in nothing else: the setting of the others with most
    values, the best of these; of numbers some from end to end. Values that occur only together
    with a change of another knob show no effect of this one."""
    sign, metric = results.objectives[0].sign, results.objectives[0].metric

    def worth(taken: Mapping[Value, Trial]) -> tuple[int, float]:
        best = min(sign * trial.metrics[metric] for trial in taken.values())
        return min(len(taken), MOST_ROWS), -best

    settings = matched(results, knob)
    if not settings:
        return {}
    found = max(settings, key=worth)
    values = list(found)
    if is_scale(values):
        values = sorted(values)
        count = min(len(values), MOST_ROWS)
        values = [values[round(k * (len(values) - 1) / (count - 1))] for k in range(count)]
    return {value: found[value] for value in values[:MOST_ROWS]}


def _knobs(results: StudyResults) -> list[str]:
    """The knobs that the study asks about, then others; those that some trials differ in alone."""
    names = dict.fromkeys([*_asked(results), *varied(results)])
    return [knob for knob in names if len(alone(results, knob)) > 1][:MOST_KNOBS]


def _asked(results: StudyResults) -> Sequence[str]:
    """The knobs that the study asks about."""
    wanted = declared(results)
    return wanted.knobs if wanted else ()


def _across(results: StudyResults) -> dict[str, Trial]:
    """Best, median and worst of the complete ones, the worst that was pruned, one that diverged."""
    field, sign = contenders(results), results.objectives[0].sign
    pruned = sorted(pruned_trials(results), key=lambda each: sign * each[1].value)
    diverged = [trial for trial in results.trials if trial.state == "diverged"]
    named = zip(
        ROLES,
        (
            field[:1],
            field[len(field) // 2 :][:1],
            ranking(results)[-1:],
            [trial for trial, _ in pruned[-1:]],
            diverged[:1],
        ),
        strict=True,
    )
    rows: dict[str, Trial] = {}
    for role, found in named:
        for trial in found:
            if trial not in rows.values():
                rows[role] = trial
    return rows


def _rows(
    results: StudyResults, fetch: Fetch, trials: Mapping[str, Trial], group: int
) -> list[Picture]:
    knobs = distinguishing(results)
    made: list[Picture] = []
    for place, (role, trial) in enumerate(trials.items()):
        png = row_of(trial, fetch)
        if png is not None:
            metric = results.objectives[0].metric
            value = f"{metric_name(results, metric)} {text(estimate(trial, metric))}"
            what = f"{trial_name(results, trial, knobs)}; {value}."
            caption = f"{role}, {what}" if role in ROLES else what
            caption = caption[0].upper() + caption[1:]
            kind = f"same-noise-{group}"
            label = f"{role}: {value}"
            made.append(Picture(kind, str(place), caption, png, trial.number, label))
    return made


def row_of(trial: Trial, fetch: Fetch) -> bytes | None:
    """The first images of a trial's first seed, side by side; None if the store has none."""
    if not trial.cells:
        return None
    try:
        with np.load(fetch(trial.cells[0].run_id, IMAGES)) as stored:
            images = stored["images"][:COLUMNS]
    except (FileNotFoundError, ValueError, KeyError, OSError):
        return None
    return png_of(beside(images)) if len(images) else None


def beside(images: Pixels) -> Pixels:
    """Images [n, C, H, W] side by side with white gaps, [H, W, C], scaled by whole factors."""
    factor = -(-LEAST // images.shape[-1])
    large = images.repeat(factor, axis=-1).repeat(factor, axis=-2).transpose(0, 2, 3, 1)
    gap = np.full((large.shape[1], GAP, large.shape[3]), 255, dtype=np.uint8)
    parts = [part for image in large for part in (image, gap)]
    return np.concatenate(parts[:-1], axis=1)


def png_of(image: Pixels) -> bytes:
    """A PNG of uint8, [H, W, 1 or 3], the same bytes everywhere: no library writes its version."""
    height, width, channels = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
