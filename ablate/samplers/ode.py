"""Deterministic solvers of the probability-flow ODE dy/ds = (y - D(y; s)) / s, without noise.

Both end on s = 0 with y = D(y; s_min). The shift m(t) is subtracted before a step and added after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.samplers.kernel import Denoiser, Info, State

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level


def euler(denoiser: Denoiser, state: State, level: Level, z: Tensor) -> tuple[State, Info]:
    """Euler's method: first order, one evaluation per level."""
    y = state.y - level.shift
    slope = (y - denoiser(y, level.s)) / level.s
    return state._replace(y=y + (level.s_next - level.s) * slope + level.shift_next), Info()


def heun(denoiser: Denoiser, state: State, level: Level, z: Tensor) -> tuple[State, Info]:
    """Heun's method: second order, two evaluations a level; one if s_next = 0."""
    y = state.y - level.shift
    step = level.s_next - level.s
    slope = (y - denoiser(y, level.s)) / level.s
    ahead = y + step * slope
    if level.s_next > 0:
        slope_ahead = (ahead - denoiser(ahead, level.s_next)) / level.s_next
        ahead = y + step * (slope + slope_ahead) / 2
    return state._replace(y=ahead + level.shift_next), Info()
