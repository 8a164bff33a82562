"""Training objectives by name. A new one is one parametrisation and one record here.

An objective decides what the network's output means (its parametrisation, which also has the loss)
and which noise levels training visits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ablate.core.registry import Registry
from ablate.diffusion.inits import PAPER_SIGMA
from ablate.diffusion.moments import Moments
from ablate.nets.precondition import AsInPaper, Model, Preconditioned

PAPER_N = 1000
"""Number of steps N in the paper's training."""


class Levels(Protocol):
    """The fields of a training recipe that decide its noise levels."""

    @property
    def batch(self) -> int: ...
    @property
    def s_min(self) -> float: ...
    @property
    def s_max(self) -> float: ...
    @property
    def focus(self) -> float: ...


@dataclass(frozen=True)
class TrainingObjective:
    """A loss to minimise, and the noise levels to minimise it at.

    inputs: image channels that the network sees for each channel of the images.
    parametrise: `(net, moments) -> Model`, the moments being those of the log data.
    noise_range: `(recipe) -> (lowest, highest)` level that training visits.
    noise_levels: `(recipe, generator) -> s`, one level for each image of a batch, [B].
    """

    name: str
    about: str
    inputs: int
    parametrise: Callable[[nn.Module, Moments], Model]
    noise_range: Callable[[Levels], tuple[float, float]]
    noise_levels: Callable[[Levels, torch.Generator], Tensor]
    needs_classes: bool = False  # whether the network must be conditioned on labels
    tells_maps: bool = False  # whether `losses` takes the maps of augmented images


def log_uniform_levels(recipe: Levels, generator: torch.Generator) -> Tensor:
    """Log-uniform on [s_min, s_max], one in each of `batch` equal strata, in random order.

    With a focus the density is 1/(1 - focus) as high in the middle and 1/(1 + focus) at the ends.
    """
    strata = torch.randperm(recipe.batch, generator=generator)
    u = (strata + torch.rand(recipe.batch, generator=generator)) / recipe.batch
    if recipe.focus:
        u = u + recipe.focus * (2 * math.pi * u).sin() / (2 * math.pi)
    return recipe.s_min * (recipe.s_max / recipe.s_min) ** u


def paper_levels(recipe: Levels, generator: torch.Generator) -> Tensor:
    """s = sigma √(k/N) with k uniform on 1..N-1, whatever the recipe's s_min and s_max are."""
    k = torch.randint(1, PAPER_N, (recipe.batch,), generator=generator)
    return PAPER_SIGMA * (k / PAPER_N).sqrt()


def paper_range(recipe: Levels) -> tuple[float, float]:
    """The levels of the paper's steps 1 and N-1."""
    first, last = 1 / PAPER_N, (PAPER_N - 1) / PAPER_N
    return PAPER_SIGMA * first**0.5, PAPER_SIGMA * last**0.5


OBJECTIVES: Registry[TrainingObjective] = Registry(
    "training objective",
    "ablate.training_objectives",
    TrainingObjective,
    [
        TrainingObjective(
            "preconditioned",
            "the denoiser's error, weighted to unit size at every level (Wiener preconditioning)",
            inputs=2,  # y and the linear denoiser
            tells_maps=True,
            parametrise=lambda net, moments: Preconditioned(net, moments.everything),
            noise_range=lambda recipe: (recipe.s_min, recipe.s_max),
            noise_levels=log_uniform_levels,
        ),
        TrainingObjective(
            "class-preconditioned",
            "the same; a labelled image is preconditioned by its class's Gaussian",
            inputs=2,
            tells_maps=True,
            parametrise=lambda net, moments: Preconditioned(
                net, moments.everything, moments.classes
            ),
            noise_range=lambda recipe: (recipe.s_min, recipe.s_max),
            noise_levels=log_uniform_levels,
            needs_classes=True,
        ),
        TrainingObjective(
            "paper",
            "the M-DSM loss as the paper prints it, without weights",
            inputs=1,
            parametrise=lambda net, moments: AsInPaper(net),
            noise_range=paper_range,
            noise_levels=paper_levels,
        ),
    ],
)
