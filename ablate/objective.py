"""What training minimises: the preconditioned loss, or the paper's own.

Preconditioned: s log-uniform, the denoiser's error weighted to unit size at every level. Paper:
k uniform on 1..N-1 with s = sigma √(k/N), the M-DSM loss as printed, without weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ablate.bundle import Model
from ablate.inits import PAPER_SIGMA
from ablate.losses import mdsm_target
from ablate.nets.precondition import AsInPaper
from ablate.recipe import Recipe

PAPER_N = 1000


def levels_of(recipe: Recipe) -> tuple[float, float]:
    """(lowest, highest) that training visits: the recipe's, or those of the paper's steps."""
    if recipe.objective == "paper":
        first, last = 1 / PAPER_N, (PAPER_N - 1) / PAPER_N
        return PAPER_SIGMA * first**0.5, PAPER_SIGMA * last**0.5
    return recipe.s_min, recipe.s_max


def noise_levels(recipe: Recipe, generator: torch.Generator) -> Tensor:
    """One level for each image of a batch, [B].

    Log-uniform on [s_min, s_max], one in each of `batch` equal strata, in random order; with a
    focus the density is 1/(1 - focus) as high in the middle and 1/(1 + focus) at the ends. Or
    those of the paper's steps, whatever s_min and s_max are.
    """
    if recipe.objective == "paper":
        k = torch.randint(1, PAPER_N, (recipe.batch,), generator=generator)
        return PAPER_SIGMA * (k / PAPER_N).sqrt()
    strata = torch.randperm(recipe.batch, generator=generator)
    u = (strata + torch.rand(recipe.batch, generator=generator)) / recipe.batch
    if recipe.focus:
        u = u + recipe.focus * (2 * math.pi * u).sin() / (2 * math.pi)
    return recipe.s_min * (recipe.s_max / recipe.s_min) ** u


def denoising_losses(
    model: Model, y_0: Tensor, s: Tensor, z: Tensor, labels: Tensor | None = None
) -> Tensor:
    """The loss of each image, [B, 1], noised by z to levels s, [B]."""
    y_t = y_0 + s[:, None, None, None] * z
    if isinstance(model, AsInPaper):
        residual = model.hyvarinen(y_t, s, labels) - mdsm_target(y_t, y_0, s[:, None, None, None])
        return 0.5 * (residual**2).flatten(1).sum(1, keepdim=True)
    residual = model(y_t, s, labels) - y_0
    losses: Tensor = (residual**2).flatten(1).mean(1, keepdim=True) / model.error_variance(s)
    return losses


def denoising_loss(model: Model, y_0: Tensor, s: Tensor, z: Tensor) -> Tensor:
    """The loss of one batch: `mdsm` of the paper's parametrisation, else `preconditioned`."""
    return denoising_losses(model, y_0, s, z).mean()


class Losses(nn.Module):
    """`denoising_losses` as a module, for what wraps modules."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, y_0: Tensor, s: Tensor, z: Tensor, labels: Tensor | None = None) -> Tensor:
        return denoising_losses(self.model, y_0, s, z, labels)
