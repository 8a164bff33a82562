"""DPM-Solver++, multistep (Lu et al. 2022): one evaluation a level, of second or third order.

The first step has one evaluation to go by and is of first order (DDIM), the second of second order.
An error of O(h²), made once, is left by the first step: with dense levels it decides, so DPM-
Solver++ of third order converges with order 2, unless its memory is filled beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.samplers.data_prediction import data_step
from ablate.samplers.interpolation import Point, recalled
from ablate.samplers.kernel import Denoiser, Info, State

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level


def dpm_2m(denoiser: Denoiser, state: State, level: Level, z: Tensor) -> tuple[State, Info]:
    """Algorithm 2, DPM-Solver++(2M), with q = s_next/s, h = log(s/s_next), h' of the step before:

    y <- q y + (1 - q) ((1 + h/(2 h')) D - h/(2 h') D'), and y <- D on the step to s = 0.
    """
    return _multistep(denoiser, state, level, 2)


def dpm_3m(denoiser: Denoiser, state: State, level: Level, z: Tensor) -> tuple[State, Info]:
    """y <- q y + ∫ exp(-(h - u)) P(u) du, P the parabola through D, D' and D''.

    This is the Taylor expansion of Proposition 4.1 to third order, its derivatives taken from the
    last three evaluations.
    """
    return _multistep(denoiser, state, level, 3)


def _multistep(denoiser: Denoiser, state: State, level: Level, count: int) -> tuple[State, Info]:
    y = state.y - level.shift
    denoised = denoiser(y, level.s)
    points = recalled(state, Point(level.s, denoised), count)
    ahead = data_step(y, level.s, level.s_next, points) if level.s_next > 0 else denoised
    return state._replace(y=ahead + level.shift_next, memory=points), Info()
