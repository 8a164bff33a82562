"""Sign-preserving samplers: Euler-Maruyama steps of the reverse-time SDE of log x."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ablate.samplers.kernel import Denoiser, Info, State, hyvarinen, log_score

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level


def dale_step(y: Tensor, pull: Tensor, level: Level, z: Tensor) -> Tensor:
    """x <- x ∘ exp(-delta (mu - 3 sigma²/2) + pull + kappa sigma √delta z), in y = log|x|.

    Three methods are this step with other arguments:
    - ADLS: pull = delta sigma² hyvarinen;
    - mirrored Langevin with step eps: the same pull, delta mu = eps/2, delta sigma² = eps,
      kappa = √2;
    - exponentiated gradient descent with rate eta: pull = -eta grad ∘ sign(x),
      delta mu = 3 delta sigma²/2, kappa = 0.
    """
    deterministic = y - (level.drift - 1.5 * level.variance) + pull
    return deterministic + (level.kappa * math.sqrt(level.variance)) * z


def adls(denoiser: Denoiser, state: State, level: Level, z: Tensor) -> tuple[State, Info]:
    """Algorithm 1: x <- x ∘ exp(-delta (mu - 3 sigma²/2) + delta sigma² hyvarinen + noise)."""
    pull = level.variance * hyvarinen(denoiser, state.y, level)
    return state._replace(y=dale_step(state.y, pull, level, z)), Info()


def adls_consistent(
    denoiser: Denoiser, state: State, level: Level, z: Tensor
) -> tuple[State, Info]:
    """x <- x ∘ exp(-delta (mu - sigma²/2) + delta sigma² (1 + kappa²)/2 log_score + noise).

    Less noise needs less drift: with this factor every kappa has the marginals of the forward
    process, from the reverse SDE (kappa = 1, ADLS) to the probability-flow ODE (kappa = 0).
    """
    weight = level.variance * (1 + level.kappa**2) / 2
    # dale_step adds the 3/2 that belongs to hyvarinen = log_score - 1; subtract that 1 again
    pull = weight * log_score(denoiser, state.y, level) - level.variance
    return state._replace(y=dale_step(state.y, pull, level, z)), Info()
