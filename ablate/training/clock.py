"""Training by the clock: steps that fit a time budget, timed checkpoints, and speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ablate.core.files import whole_file
from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.models.recipe import Recipe
from ablate.training import distributed
from ablate.training.ema import PowerEMA
from ablate.training.fitted_moments import moments_of
from ablate.training.optimiser import make_optimiser
from ablate.training.step import (
    TrainableModel,
    TrainingImages,
    make_trainable,
    take_step,
)

TIMED_STEPS, UNTIMED_STEPS = 20, 5
"""Steps taken to measure their duration; the first few are slower (compiling, allocating)."""

WRITE_SECONDS = 20.0
"""Time between writings of how long a training has run."""

CHECKPOINT_SECONDS = 180.0
"""Time between checkpoints: what an interrupted training loses at most."""


def with_planned_steps(
    recipe: Recipe,
    trainable: TrainableModel,
    images: TrainingImages,
    minutes: float | None,
    saved: dict[str, Any] | None,
) -> Recipe:
    """The recipe with the number of steps that fits `minutes`, if these are given.

    It is measured once, in a new training; a resumed one has it from its checkpoint.
    """
    if minutes is None:
        return recipe
    steps = saved["steps"] if saved else steps_within(60 * minutes, recipe, trainable, images)
    return recipe.model_copy(update={"steps": steps})


def steps_within(
    seconds: float, recipe: Recipe, trainable: TrainableModel, images: TrainingImages
) -> int:
    """The number of steps that fits `seconds`, less the time it takes to measure it.

    Measured by taking some steps and restoring the weights.
    """
    net = trainable.model.net
    before = {name: value.clone() for name, value in net.state_dict().items()}
    optimiser = make_optimiser(net, recipe)
    ends = _timed_steps(recipe, trainable._replace(optimiser=optimiser), images)
    net.load_state_dict(before)
    left = seconds - (ends[-1] - ends[0])
    return distributed.from_first(max(1, int(left / _each(ends))))


def seconds_of_a_step(recipe: Recipe, dataset: Dataset, device: str) -> float:
    """How long a step of a training takes on a device, by taking some."""
    x = to_unit_interval_plus_one(dataset.train.pixels)
    moments = moments_of(dataset, recipe)
    images = TrainingImages(x.log().to(device), dataset.train.labels.to(device))
    trainable = make_trainable(recipe, dataset.shape, moments, device, None)
    return _each(_timed_steps(recipe, trainable, images))


def _each(ends: list[float]) -> float:
    """Seconds of a step."""
    return (ends[-1] - ends[UNTIMED_STEPS]) / (TIMED_STEPS - UNTIMED_STEPS)


def _timed_steps(recipe: Recipe, trainable: TrainableModel, images: TrainingImages) -> list[float]:
    """Take some steps, which train the model a little; returns when the first began and when each
    ended, with its part of the averaging."""
    net = trainable.model.net
    ema, ends = PowerEMA(net, recipe.gamma), [time.perf_counter()]
    for step in range(TIMED_STEPS):
        take_step(recipe, trainable, images, step)
        ema.update(net, step + 1)
        ends.append(time.perf_counter())
    return ends


def checkpoint_schedule(recipe: Recipe) -> Callable[[int], bool]:
    """A function that returns whether a checkpoint is due after a step: by count or by clock."""
    if recipe.checkpoint_every:
        return lambda step: step % recipe.checkpoint_every == 0
    return every(CHECKPOINT_SECONDS)


def every(seconds: float) -> Callable[[int], bool]:
    """A function that returns True at the first step after each period of `seconds`."""
    last = time.monotonic()

    def due(step: int) -> bool:
        nonlocal last
        if time.monotonic() - last < seconds:
            return False
        last = time.monotonic()
        return True

    return due


class TrainingTime:
    """How long a training has run in all, in a small file beside its checkpoint.

    It is no part of the checkpoint: a resumed training ends with the same bytes as one that was
    never interrupted.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._began, self._due = path, time.monotonic(), every(WRITE_SECONDS)
        try:
            self._before = float(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._before = 0.0

    @property
    def hours(self) -> float:
        """Of this run and all before it."""
        return (self._before + time.monotonic() - self._began) / 3600

    def after_step(self, step: int) -> None:
        """Write it now and then."""
        if self._due(step):
            self.write()

    def write(self) -> None:
        """Write it, so that a run that continues adds to it."""
        with whole_file(self._path) as scratch:
            scratch.write_text(f"{3600 * self.hours:.0f}\n", encoding="utf-8")

    def remove(self) -> None:
        """Forget it: the training is packed."""
        self._path.unlink(missing_ok=True)


class ImagesPerSecond:
    """The speed of training, averaged over about the last twenty steps."""

    def __init__(self, batch: int) -> None:
        self._batch, self._last, self._seconds = batch, time.perf_counter(), 0.0

    def after_step(self) -> float:
        """The speed, now that another step is done."""
        now = time.perf_counter()
        took, self._last = now - self._last, now
        self._seconds += (took - self._seconds) * (0.05 if self._seconds else 1.0)
        return self._batch / self._seconds
