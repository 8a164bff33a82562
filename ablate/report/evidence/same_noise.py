"""Samples from the same noise: a row for each configuration, the same eight samples in each.

Sample i of a seed depends on the seed and i alone, so that a column shows what a knob changes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ablate.report.answers.contrast import declared
from ablate.report.answers.wording import best_at
from ablate.report.blocks import Picture, Pictures
from ablate.report.gallery import Fetch
from ablate.report.knobs import distinguishing, varied
from ablate.report.names import estimate, knob_name, metric_name, text, trial_name
from ablate.report.ranking import contenders, pruned_trials, ranking
from ablate.results import IMAGES, StudyResults, Trial

COLUMNS = 8
LEAST = 64
"""Pixels of a picture's side, at least; a larger one is not scaled."""

GAP = 4
MOST_KNOBS, MOST_ROWS = 3, 6

Pixels = Any
"""A row of images, uint8, [n, C, H, W]."""


def pictures(results: StudyResults, fetch: Fetch) -> list[Pictures]:
    """From the best to the worst of all, then along the knobs; rows without images are left out."""
    groups = {"From the best to the worst, on the same noise": _across(results)}
    for knob in _knobs(results):
        best = list(best_at(results, knob).items())[:MOST_ROWS]
        trials = {f"{knob_name(knob)} = {text(value)}": trial for value, trial in best}
        groups[f"Along {knob_name(knob)}, each value at its best setting"] = trials
    made: list[Pictures] = []
    for place, (title, trials) in enumerate(groups.items()):
        rows = _rows(results, fetch, trials, place)
        made += [Pictures(title, rows, strips=True)] if len(rows) > 1 else []
    return made


def _knobs(results: StudyResults) -> list[str]:
    """The knobs that the study asks about, then others; those with several contrasted values."""
    wanted = declared(results)
    names = dict.fromkeys([*(wanted.knobs if wanted else ()), *varied(results)])
    return [knob for knob in names if len(best_at(results, knob)) > 1][:MOST_KNOBS]


def _across(results: StudyResults) -> dict[str, Trial]:
    """Best, median and worst of the complete ones, the worst that was pruned, one that diverged."""
    field, sign = contenders(results), results.objectives[0].sign
    pruned = sorted(pruned_trials(results), key=lambda each: sign * each[1].value)
    diverged = [trial for trial in results.trials if trial.state == "diverged"]
    named = [
        ("best", field[:1]),
        ("median", field[len(field) // 2 :][:1]),
        ("worst", ranking(results)[-1:]),
        ("pruned, the worst", [trial for trial, _ in pruned[-1:]]),
        ("diverged", diverged[:1]),
    ]
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
            what = f"{role[0].upper()}{role[1:]}: {trial_name(results, trial, knobs)}; {value}."
            made.append(Picture(f"same-noise-{group}", str(place), what, png))
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
