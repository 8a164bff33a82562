"""What training minimises: the preconditioned loss, or the paper's own.

Preconditioned: s log-uniform, the denoiser's error weighted to unit size at every level. Paper:
k uniform on 1..N-1 with s = sigma √(k/N), the M-DSM loss as printed, without weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.bundle import Model
from ablate.inits import PAPER_SIGMA
from ablate.losses import mdsm, preconditioned
from ablate.nets.precondition import AsInPaper
from ablate.recipe import Recipe

PAPER_N = 1000


def noise_levels(recipe: Recipe, generator: torch.Generator) -> Tensor:
    """One level for each image of a batch, [B].

    Log-uniform on [s_min, s_max], one in each of `batch` equal strata, in random order; or those
    of the paper's steps, whatever s_min and s_max are.
    """
    if recipe.objective == "paper":
        k = torch.randint(1, PAPER_N, (recipe.batch,), generator=generator)
        return PAPER_SIGMA * (k / PAPER_N).sqrt()
    strata = torch.randperm(recipe.batch, generator=generator)
    u = (strata + torch.rand(recipe.batch, generator=generator)) / recipe.batch
    return recipe.s_min * (recipe.s_max / recipe.s_min) ** u


def denoising_loss(model: Model, y_0: Tensor, s: Tensor, z: Tensor) -> Tensor:
    """The loss of one batch, noised by z to levels s, [B]."""
    y_t = y_0 + s[:, None, None, None] * z
    if isinstance(model, AsInPaper):
        return mdsm(model.hyvarinen(y_t, s), y_t, y_0, s[:, None, None, None])
    return preconditioned(model(y_t, s), y_0, model.error_variance(s))
