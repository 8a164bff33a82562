"""Cells: one configuration and one seed -> images -> features -> metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from ablate.experiment.prepare import Setup
from ablate.generate.draw import Drawing, Sampling
from ablate.generate.settings import Settings
from ablate.metrics.copies import Copies
from ablate.metrics.extractors.extractor import extract

KEPT_IMAGES = 64
"""Images of a cell that the record keeps."""


class CellResult(NamedTuple):
    """What one cell gives."""

    metrics: dict[str, float]
    drawing: Drawing
    features: Tensor  # float16, [N, f]
    neighbours: dict[str, Copies]  # in the training set, by space; empty if not complete
    state: str  # complete, diverged or pruned
    reason: str | None  # of a state other than complete


Judge = Callable[[Tensor], str | None]
"""Features of the samples so far, float16 -> why to prune the trial, or None."""


def run_cell(
    setup: Setup,
    settings: Settings,
    seed: int,
    progress: Callable[[], None] = lambda: None,
    judge: Judge | None = None,
) -> CellResult:
    """Draw and measure one cell, the unit of work. A diverged cell has a reason and no distances.

    With a judge the cell is drawn rung by rung, and ends where the judge gives a reason. Every rung
    adds samples to those of the rung before; its distances have its number of samples in their
    names.
    """
    most, seconds = setup.study.samples, 0.0
    sampling = Sampling(
        setup.bundle.score_model, setup.source, settings, seed, most, setup.device, progress
    )
    partial: dict[str, float] = {}
    for samples in (*(setup.study.rungs if judge else ()), most):
        began = time.perf_counter()
        drawing = sampling.up_to(samples)
        seconds += time.perf_counter() - began
        features = extract(setup.extractor, drawing.pixels)
        state, reason = ("diverged", drawing.reason) if drawing.reason else ("complete", None)
        if judge and not drawing.reason and samples < most:
            partial |= {f"{k}_n{samples}": v for k, v in setup.measure(features).items()}
            if (reason := judge(features.half())) is not None:
                state = "pruned"
        if reason:
            break
    metrics = partial | {
        "nfe": float(drawing.nfe),
        "samples": float(len(drawing.pixels)),
        "seconds": seconds,
        "clamp_rate": drawing.clamp_rate,
        "flip_rate": drawing.flip_rate,
        "diverged": float(state == "diverged"),
    }
    neighbours = {}
    if state == "complete":
        neighbours = setup.neighbourhood.find(drawing.pixels, features)
        metrics |= setup.measure(features)
        for space, copies in neighbours.items():
            metrics |= copies.values(space)
    return CellResult(metrics, drawing, features.half(), neighbours, state, reason)
