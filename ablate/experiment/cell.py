"""Cells: one configuration and one seed -> images -> features -> metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor

from ablate.experiment.prepare import Setup
from ablate.generate.draw import Drawing, Sampling
from ablate.generate.settings import Settings
from ablate.metrics.copies import Copies
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.registry import METRICS
from ablate.results import ERROR

KEPT_IMAGES = 64
"""Images of a cell that the record keeps."""


class CellResult(NamedTuple):
    """What one cell gives."""

    metrics: dict[str, float]
    rungs: dict[int, dict[str, float]]  # samples -> metrics at a rung before the last sample
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
    most: int | None = None,
) -> CellResult:
    """Draw and measure one cell, the unit of work. A diverged cell has a reason and no distances.

    With a judge the cell is drawn rung by rung, and ends where the judge gives a reason. Every rung
    adds samples to those of the rung before. A pruned cell has the metrics of the samples that it
    has: its objective, and what does not depend on how many there are.
    most: the number of samples, instead of the study's.
    """
    most, seconds = most or setup.study.samples, 0.0
    sampling = Sampling(
        setup.score_model, setup.source, settings, seed, most, setup.device, progress
    )
    rungs: dict[int, dict[str, float]] = {}
    for samples in (*(setup.study.rungs if judge else ()), most):
        began = time.perf_counter()
        drawing = sampling.up_to(samples)
        seconds += time.perf_counter() - began
        features = extract(setup.extractor, drawing.pixels)
        state, reason = ("diverged", drawing.reason) if drawing.reason else ("complete", None)
        if judge and not drawing.reason and samples < most:
            rungs[samples] = _of_few(setup, features)
            if (reason := judge(features.half())) is not None:
                state = "pruned"
        if reason:
            break
    metrics = (rungs[samples] if state == "pruned" else {}) | {
        "nfe": float(drawing.nfe),
        "samples": float(len(drawing.pixels)),
        "seconds": seconds,
        "clamp_rate": drawing.clamp_rate,
        "flip_rate": drawing.flip_rate,
        "diverged": float(state == "diverged"),
    }
    neighbours = {}
    if state == "complete":
        neighbours = setup.find_copies(drawing.pixels, features)
        metrics |= setup.measure(features) | _of_copies(neighbours)
    return CellResult(metrics, rungs, drawing, features.half(), neighbours, state, reason)


def _of_copies(neighbours: Mapping[str, Copies]) -> dict[str, float]:
    """The numbers of a search for copies in each space, with their errors."""
    metrics: dict[str, float] = {}
    for space, copies in neighbours.items():
        errors = {name + ERROR: error for name, error in copies.errors(space).items()}
        metrics |= copies.values(space) | errors
    return metrics


def _of_few(setup: Setup, features: Tensor) -> dict[str, float]:
    """The objectives, and the metrics whose mean does not depend on the number of samples."""
    goals = {objective.metric for objective in setup.study.objectives}
    kept = {name for name, metric in METRICS.items() if metric.steady} | goals
    return {k: v for k, v in setup.measure(features).items() if k.removesuffix(ERROR) in kept}
