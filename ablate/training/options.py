"""Options of one training run, and the checks that come before anything expensive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset
from ablate.diffusion.moments import Gaussian, Moments
from ablate.models.bundle import build_model
from ablate.models.recipe import Recipe
from ablate.nets.registry import NETWORKS
from ablate.training import distributed
from ablate.training.ema import gamma_of


class WarmStart(NamedTuple):
    """Weights of a bundle to start from."""

    name: str  # of the bundle
    hash: str  # of its file
    weights: dict[str, Tensor]
    images_seen: int = 0  # by its training
    hours: float = 0.0  # of its training


class Options(NamedTuple):
    """What is decided when a training is started, not by its recipe."""

    minutes: float | None = None  # decides the number of steps, in place of the recipe's
    start: WarmStart | None = None
    ema_length: float | None = None  # sigma_rel of the average to pack; None: the recipe's gamma
    compile: bool = False  # the network on a CPU; on CUDA the loss is always compiled
    features: int | None = None  # images of each split whose features are packed; None: many
    due: Callable[[int], bool] | None = None  # a checkpoint after this step? None: by the clock


DEFAULTS = Options()


def check_options(recipe: Recipe, options: Options) -> None:
    """Raise an error if the options do not go with the recipe or the number of processes."""
    distributed.check_batch(recipe.batch)
    if options.ema_length is not None:
        gamma_of(options.ema_length)
        if not recipe.snapshots:
            raise UserError(
                f"--ema-length {options.ema_length:g}: the recipe keeps no snapshots to choose it"
                " from; give it `snapshots = 8` before training"
            )


def check_fits(recipe: Recipe, dataset: Dataset) -> None:
    """Raise an error if the recipe's network cannot be trained on the images of the dataset."""
    (_, height, width), net = dataset.shape, recipe.net
    where = f"the images of {dataset.name}, {height}×{width}"
    if NETWORKS[net.kind].patched and (height % net.patch or width % net.patch):
        raise UserError(f"net.patch = {net.patch} does not divide {where}")
    classes = int(dataset.train.labels.max()) + 1
    if net.classes and net.classes != classes:
        raise UserError(f"net.classes = {net.classes}, {dataset.name} has {classes}")
    try:
        _run_on_meta(recipe, dataset)
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the recipe's network does not fit {where} ({reason})") from None


def _run_on_meta(recipe: Recipe, dataset: Dataset) -> None:
    """Evaluate the network on shapes without numbers."""
    d = math.prod(dataset.shape)
    with torch.device("meta"):
        gaussian = Gaussian(torch.zeros(d), torch.zeros(0, d), torch.zeros(0), torch.ones(()))
        classes = [gaussian] * recipe.net.classes
        moments = Moments(gaussian, classes, torch.zeros(0, d), dataset.shape[0])
        model = build_model(dataset.shape, recipe, moments)
        model(torch.zeros(2, *dataset.shape), torch.ones(2))


def training_identity(recipe: Recipe, dataset: Dataset, options: Options) -> str:
    """A text that differs whenever the weights of a step would; checkpoints carry it."""
    parts = [recipe.identity(), dataset.hash()]
    parts += [f"minutes {options.minutes:g}"] if options.minutes else []
    return " ".join(parts + ([f"from {options.start.hash}"] if options.start else []))
