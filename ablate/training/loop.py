"""Training a denoiser: a function of (recipe, step) alone, so that a resumed run is the same run.

Nothing is carried from step to step but weights, their averages and the optimiser.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.signals import shielded
from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.moments import Gaussian, Moments, fit_moments
from ablate.models.bundle import build_model
from ablate.models.recipe import Recipe
from ablate.nets.precondition import Model
from ablate.nets.registry import NETWORKS
from ablate.training import checkpoint as checkpoints
from ablate.training import distributed as parallel
from ablate.training.ema import gamma_of
from ablate.training.state import TrainingState
from ablate.training.step import (
    Examples,
    Learner,
    Shape,
    WarmStart,
    generator_of,
    make_learner,
    make_model,
    steps_in,
)

CHECKPOINT_SECONDS = 180.0
EVALUATION_LEVELS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
HELDOUT, HELDOUT_GLANCE = 2000, 512
"""Held-out images to judge by: at the end, and on the way."""


class Trained(NamedTuple):
    model: Model  # with averaged weights
    moments: Moments
    heldout_error: dict[float, float]  # noise level -> mean squared error of D per pixel
    recipe: Recipe  # with the number of steps that a budget of time came to


class Options(NamedTuple):
    """What is decided at the time of training, not by its recipe."""

    minutes: float | None = None  # decides the number of steps, in place of the recipe's
    start: WarmStart | None = None
    ema_length: float | None = None  # sigma_rel of the average to pack; None: the recipe's gamma
    due: Callable[[int], bool] | None = None  # a checkpoint after this step? None: by the clock


DEFAULTS = Options()


class StepNews(NamedTuple):
    step: int  # steps done
    steps: int  # to do in all
    loss: float
    levels: Tensor  # s of each image, [B]
    losses: Tensor  # of each image, [B]
    images_per_second: float
    shape: Shape  # of the images
    averaged: Callable[[], Trained]  # what it would be if it ended here


def every(seconds: float) -> Callable[[int], bool]:
    """True at the first step after each so many seconds."""
    last = time.monotonic()

    def due(step: int) -> bool:
        nonlocal last
        if time.monotonic() - last < seconds:
            return False
        last = time.monotonic()
        return True

    return due


def check_fits(recipe: Recipe, dataset: Dataset) -> None:
    """Refuse, before anything expensive, what could not be trained."""
    (_, height, width), net = dataset.shape, recipe.net
    where = f"the images of {dataset.name}, {height}×{width}"
    if NETWORKS[net.kind].patched and (height % net.patch or width % net.patch):
        raise UserError(f"net.patch = {net.patch} does not divide {where}")
    classes = int(dataset.train.labels.max()) + 1
    if net.classes and net.classes != classes:
        raise UserError(f"net.classes = {net.classes}, {dataset.name} has {classes}")
    d = math.prod(dataset.shape)
    try:
        with torch.device("meta"):  # shapes without numbers
            gaussian = Gaussian(torch.zeros(d), torch.zeros(0, d), torch.zeros(0), torch.ones(()))
            model = build_model(dataset.shape, recipe, gaussian)
            model(torch.zeros(2, *dataset.shape), torch.ones(2))
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the recipe's network does not fit {where} ({reason})") from None


def train(
    recipe: Recipe,
    dataset: Dataset,
    checkpoint: Path,
    device: str = "cpu",
    progress: Callable[[int, float], None] = lambda step, loss: None,
    options: Options = DEFAULTS,
    watch: Callable[[StepNews], None] | None = None,
) -> Trained:
    """Run the recipe to its last step, from `checkpoint` if that is there."""
    _check_options(recipe, options)
    check_fits(recipe, dataset)
    x = to_unit_interval_plus_one(dataset.train.pixels)
    moments = fit_moments(x, dataset.train.labels, recipe.rank, recipe.class_rank)
    learner = make_learner(recipe, dataset.shape, moments, device, options.start)
    examples = Examples(x.log().to(device), dataset.train.labels.to(device))
    identity = _identity(recipe, dataset, options)
    writes, due = parallel.rank() == 0, options.due or _checkpoints(recipe)
    reading = device if parallel.size() == 1 else "cpu"  # every process has its own device
    state = parallel.agreed(checkpoints.load(checkpoint, identity, reading) if writes else None)
    recipe = _planned(recipe, learner, examples, options.minutes, state)
    course, done = TrainingState(recipe, learner), 0

    def save() -> None:
        if writes:
            head = {"identity": identity, "step": done, "steps": recipe.steps}
            checkpoints.save(checkpoint, head | course.state())

    if state is not None:
        course.load(state)
        done = int(state["step"])
    elif options.minutes:
        save()  # the plan, before any of it can be lost
    pace, trained = _Pace(recipe.batch), partial(_trained, recipe, dataset, moments, device)
    try:
        while done < recipe.steps:
            with shielded():  # a step is taken whole or not at all
                levels, losses = course.advance(examples, done)
                done += 1
            loss, speed = float(losses.mean()), pace.after_step()
            progress(done, loss)
            if watch is not None:
                averaged = partial(trained, course.average(), HELDOUT_GLANCE)
                batch = (loss, levels, losses, speed, dataset.shape)
                watch(StepNews(done, recipe.steps, *batch, averaged))
            if due(done) or done == recipe.steps:
                save()
    except KeyboardInterrupt:
        save()
        raise
    return trained(course.average(options.ema_length), HELDOUT)


def _checkpoints(recipe: Recipe) -> Callable[[int], bool]:
    """When they are due: after so many steps, or by the clock."""
    if recipe.checkpoint_every:
        return lambda step: step % recipe.checkpoint_every == 0
    return every(CHECKPOINT_SECONDS)


def _check_options(recipe: Recipe, options: Options) -> None:
    parallel.check_batch(recipe.batch)
    if options.ema_length is not None:
        gamma_of(options.ema_length)
        if not recipe.snapshots:
            raise UserError(
                f"--ema-length {options.ema_length:g}: the recipe keeps no snapshots to choose it"
                " from; give it `snapshots = 8` before training"
            )


def _identity(recipe: Recipe, dataset: Dataset, options: Options) -> str:
    """Of all that decides the weights of a step."""
    parts = [recipe.identity(), dataset.hash()]
    parts += [f"minutes {options.minutes:g}"] if options.minutes else []
    return " ".join(parts + ([f"from {options.start.hash}"] if options.start else []))


def _planned(
    recipe: Recipe,
    learner: Learner,
    examples: Examples,
    minutes: float | None,
    state: dict[str, Any] | None,
) -> Recipe:
    """With the number of steps that fits the budget: once found, kept in the checkpoint."""
    if minutes is None:
        return recipe
    steps = state["steps"] if state else steps_in(60 * minutes, recipe, learner, examples)
    return recipe.model_copy(update={"steps": steps})


class _Pace:
    """Images per second, over about the last twenty steps."""

    def __init__(self, batch: int) -> None:
        self._batch, self._last, self._seconds = batch, time.perf_counter(), 0.0

    def after_step(self) -> float:
        now = time.perf_counter()
        took, self._last = now - self._last, now
        self._seconds += (took - self._seconds) * (0.05 if self._seconds else 1.0)
        return self._batch / self._seconds


def _trained(
    recipe: Recipe,
    dataset: Dataset,
    moments: Moments,
    device: str,
    weights: dict[str, Tensor],
    heldout: int,
) -> Trained:
    model = make_model(recipe, dataset.shape, moments, device)
    model.net.load_state_dict(weights)
    errors = heldout_error(model.eval(), dataset, device, recipe.noise_range(), heldout)
    return Trained(model, moments, errors, recipe)


@torch.no_grad()
def heldout_error(
    model: Model,
    dataset: Dataset,
    device: str,
    within: tuple[float, float] = (0.0, math.inf),
    count: int = HELDOUT,
) -> dict[float, float]:
    """Mean squared error of D per pixel on held-out images, by noise level."""
    y_0 = to_unit_interval_plus_one(dataset.heldout.pixels[:count]).log()
    errors = {}
    for index, s in enumerate(EVALUATION_LEVELS):
        if not within[0] <= s <= within[1]:
            continue
        z = torch.randn(y_0.shape, generator=generator_of(0, "heldout", index))
        squares = [
            (
                (model((a + s * b).to(device), torch.full((len(a),), s, device=device)).cpu() - a)
                ** 2
            )
            for a, b in zip(y_0.split(256), z.split(256), strict=True)
        ]
        errors[s] = float(torch.cat(squares).mean())
    return errors
