"""Cells: one configuration and one seed -> images -> features -> metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor

from ablate.experiment.prepare import Setup
from ablate.generate.draw import Drawing, Sampling, Stretch
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
    panel: Tensor | None = None  # the picture of the neighbours, if another process made it


class Begun(NamedTuple):
    """A cell that is not finished, for another process to continue."""

    drawn: Stretch
    seconds: float


class Stand(NamedTuple):
    """A cell as far as it is drawn: at a rung, at its end, or where it diverged."""

    drawing: Drawing
    features: Tensor  # float16, [N, f]
    measured: dict[str, float]  # all metrics at the end, a few at a rung, none if diverged
    neighbours: dict[str, Copies]  # empty before the end
    seconds: float  # of drawing, so far


Judge = Callable[[Tensor], str | None]
"""Features of the samples so far, float16 -> why to prune the trial, or None."""


class Cell:
    """A cell that is drawn rung by rung. Every rung adds samples to those of the rung before."""

    def __init__(
        self,
        setup: Setup,
        settings: Settings,
        seed: int,
        most: int,
        progress: Callable[[], None] = lambda: None,
        begun: Begun | None = None,
    ) -> None:
        """most: samples at the end; begun: what another process drew of it."""
        drawn, self._seconds = begun or (None, 0.0)
        self._setup, self._most = setup, most
        score, device = setup.score_model, setup.device
        self._sampling = Sampling(
            score, setup.source, settings, seed, most, device, progress, drawn
        )

    def up_to(self, samples: int) -> Stand:
        """Draw and measure the first `samples` samples; stops where the cell diverges."""
        began = time.perf_counter()
        drawing = self._sampling.up_to(samples)
        self._seconds += time.perf_counter() - began
        features = extract(self._setup.extractor, drawing.pixels)
        at_end = samples >= self._most
        return measured(self._setup, drawing, features, self._seconds, at_end)

    def begun(self) -> Begun:
        """What another process needs to continue."""
        return Begun(self._sampling.stretch(), self._seconds)


def measured(
    setup: Setup, drawing: Drawing, features: Tensor, seconds: float, at_end: bool = True
) -> Stand:
    """Measure what is drawn of a cell: by all metrics at its end, else by a few."""
    metrics: dict[str, float] = {}
    neighbours: dict[str, Copies] = {}
    if not drawing.reason and not at_end:
        metrics = _of_few(setup, features)
    elif not drawing.reason:
        neighbours = setup.find_copies(drawing.pixels, features)
        metrics = setup.measure(features) | _of_copies(neighbours)
    return Stand(drawing, features.half(), metrics, neighbours, seconds)


def run_cell(
    setup: Setup,
    settings: Settings,
    seed: int,
    progress: Callable[[], None] = lambda: None,
    judge: Judge | None = None,
    most: int | None = None,
) -> CellResult:
    """Draw and measure one cell, the unit of work. A diverged cell has a reason and no distances.

    With a judge the cell is drawn rung by rung, and ends where the judge gives a reason. A pruned
    cell has the metrics of the samples that it has: its objective, and what does not depend on how
    many there are.
    most: the number of samples, instead of the study's.
    """
    most = most or setup.study.samples
    cell = Cell(setup, settings, seed, most, progress)
    rungs: dict[int, dict[str, float]] = {}
    for samples in setup.study.rungs if judge else ():
        stand = cell.up_to(samples)
        if judge is None or stand.drawing.reason or samples >= most:
            return result_of(stand, rungs)
        rungs[samples] = stand.measured
        if (reason := judge(stand.features)) is not None:
            return result_of(stand, rungs, reason)
    return result_of(cell.up_to(most), rungs)


def result_of(
    stand: Stand, rungs: dict[int, dict[str, float]], pruned: str | None = None
) -> CellResult:
    """The result of a cell that ends here. pruned: why, if it is pruned."""
    drawing = stand.drawing
    state = "diverged" if drawing.reason else "pruned" if pruned else "complete"
    metrics = {
        "nfe": float(drawing.nfe),
        "samples": float(len(drawing.pixels)),
        "seconds": stand.seconds,
        "clamp_rate": drawing.clamp_rate,
        "flip_rate": drawing.flip_rate,
        "diverged": float(state == "diverged"),
    }
    reason, found = drawing.reason or pruned, stand.neighbours
    return CellResult(
        metrics | stand.measured, rungs, drawing, stand.features, found, state, reason
    )


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
