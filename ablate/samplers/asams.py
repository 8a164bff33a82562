"""Sign-agnostic samplers: Euler-Maruyama steps of the reverse-time SDE of x itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ablate.samplers.kernel import Denoiser, Info, State, hyvarinen

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level


def _multiply(state: State, factor: Tensor) -> tuple[State, Info]:
    """x <- x ∘ factor; a negative factor changes the sign."""
    crossed = factor < 0
    sign = state.sign.where(~crossed, -state.sign)
    return state._replace(y=state.y + factor.abs().log(), sign=sign), Info(crossed)


def _noise(level: Level, z: Tensor) -> Tensor:
    return level.kappa * math.sqrt(level.variance) * z


def asams(denoiser: Denoiser, state: State, level: Level, z: Tensor) -> tuple[State, Info]:
    """x <- x ∘ (1 + 2 delta sigma² - delta mu + delta sigma² hyvarinen + noise).

    2 delta sigma² comes from the divergence of g gᵀ for g = sigma x. Without it, as in code written
    for additive noise, the law is wrong.
    """
    pull = level.variance * hyvarinen(denoiser, state.y, level)
    return _multiply(state, 1 + 2 * level.variance - level.drift + pull + _noise(level, z))


def asams_as_printed(
    denoiser: Denoiser, state: State, level: Level, z: Tensor
) -> tuple[State, Info]:
    """Algorithm 2 with its misprinted minus before the score: it misses the data's law."""
    pull = level.variance * hyvarinen(denoiser, state.y, level)
    return _multiply(state, 1 + 2 * level.variance - level.drift - pull + _noise(level, z))


def asams_consistent(
    denoiser: Denoiser, state: State, level: Level, z: Tensor
) -> tuple[State, Info]:
    """x <- x ∘ (1 - delta mu + delta sigma² (1 + kappa²) (1 + hyvarinen/2) + noise).

    Like `adls_consistent`, and without the excess delta sigma² (1 - kappa²)/2 that annealing leaves
    in the log-drift of ASAMS.
    """
    weight = level.variance * (1 + level.kappa**2)
    pull = weight * (1 + hyvarinen(denoiser, state.y, level) / 2)
    return _multiply(state, 1 - level.drift + pull + _noise(level, z))
