"""Training a denoiser: a function of (recipe, step) alone, so that a resumed run is the same run.

Nothing is carried from step to step but weights, their averages and the optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from ablate.core.signals import shielded
from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.moments import Moments
from ablate.models.recipe import Recipe
from ablate.nets.precondition import Model
from ablate.training.checkpoint import check_schedule, load_checkpoint, save_checkpoint
from ablate.training.clock import ImagesPerSecond, checkpoint_schedule, with_planned_steps
from ablate.training.fitted_moments import moments_of
from ablate.training.heldout import HELDOUT, HELDOUT_PREVIEW, heldout_error
from ablate.training.options import (
    DEFAULTS,
    Options,
    check_fits,
    check_options,
    training_identity,
)
from ablate.training.state import TrainingState
from ablate.training.step import Shape, TrainingImages, make_model, make_trainable


class Trained(NamedTuple):
    """A model with averaged weights, at the end of a training or during it."""

    model: Model
    moments: Moments
    heldout_error: dict[float, float]  # noise level -> mean squared error of D per pixel
    recipe: Recipe  # with the number of steps that fits the time budget, if there is one
    unlabelled_error: dict[float, float] | None = None  # the same without the images' labels


class StepReport(NamedTuple):
    """What an observer of a training receives after each step."""

    step: int  # steps done
    steps: int  # of the whole training
    loss: float
    levels: Tensor  # s of each image, [B]
    losses: Tensor  # of each image, [B]
    images_per_second: float
    shape: Shape  # of the images
    averaged: Callable[[], Trained]  # the result if training ended here


Progress = Callable[[int, float], None]  # (steps done, loss)
Observer = Callable[[StepReport], None]


def train(
    recipe: Recipe,
    dataset: Dataset,
    checkpoint: Path,
    device: str = "cpu",
    progress: Progress = lambda step, loss: None,
    options: Options = DEFAULTS,
    watch: Observer | None = None,
) -> Trained:
    """Run the recipe to its last step; continues from the file `checkpoint` if it exists."""
    check_options(recipe, options)
    check_fits(recipe, dataset)
    x = to_unit_interval_plus_one(dataset.train.pixels)
    moments = moments_of(dataset, recipe)
    trainable = make_trainable(
        recipe, dataset.shape, moments, device, options.start, options.compile
    )
    images = TrainingImages(x.log().to(device), dataset.train.labels.to(device))
    identity = training_identity(recipe, dataset, options)
    saved = load_checkpoint(checkpoint, identity, device)
    check_schedule(checkpoint, saved, recipe)
    recipe = with_planned_steps(recipe, trainable, images, options.minutes, saved)
    state = TrainingState(recipe, trainable)

    def save() -> None:
        save_checkpoint(checkpoint, {"identity": identity} | state.state())

    if saved is not None:
        state.load(saved)
    elif options.minutes:
        save()  # the number of steps, so that a resumed training has the same
    finish = partial(_trained, recipe, dataset, moments, device)
    report = _reporter(state, dataset.shape, finish, progress, watch)
    _run_steps(state, images, options.due or checkpoint_schedule(recipe), save, report)
    return finish(state.average(options.ema_length), HELDOUT)


def _run_steps(
    state: TrainingState,
    images: TrainingImages,
    due: Callable[[int], bool],
    save: Callable[[], None],
    report: Callable[[Tensor, Tensor], None],
) -> None:
    """Take the remaining steps; saves when due, at the end, and when interrupted."""
    try:
        while state.step < state.recipe.steps:
            with shielded():  # an interrupt waits for the end of the step
                levels, losses = state.advance(images)
            report(levels, losses)
            if due(state.step) or state.step == state.recipe.steps:
                save()
    except KeyboardInterrupt:
        save()
        raise


def _reporter(
    state: TrainingState,
    shape: Shape,
    finish: Callable[[dict[str, Tensor], int], Trained],
    progress: Progress,
    watch: Observer | None,
) -> Callable[[Tensor, Tensor], None]:
    """A function of a step's noise levels and losses that calls `progress` and `watch`."""
    recipe, speed = state.recipe, ImagesPerSecond(state.recipe.batch)

    def report(levels: Tensor, losses: Tensor) -> None:
        loss, rate = float(losses.mean()), speed.after_step()
        progress(state.step, loss)
        if watch is not None:
            averaged = partial(finish, state.average(), HELDOUT_PREVIEW)
            batch = (loss, levels, losses, rate, shape)
            watch(StepReport(state.step, recipe.steps, *batch, averaged))

    return report


def _trained(
    recipe: Recipe,
    dataset: Dataset,
    moments: Moments,
    device: str,
    weights: dict[str, Tensor],
    heldout: int,
) -> Trained:
    """The model with the given weights, and its error on so many held-out images."""
    model = make_model(recipe, dataset.shape, moments, device)
    model.net.load_state_dict(weights)
    error = partial(heldout_error, model.eval(), dataset, device, recipe.noise_range(), heldout)
    if not recipe.net.classes:
        return Trained(model, moments, error(), recipe)
    return Trained(model, moments, error(labelled=True), recipe, error())
