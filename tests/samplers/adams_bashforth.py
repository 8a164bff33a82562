"""A toy multistep solver: what a sampler with a memory and a knob of its own looks like.

It is not in the registry. The tests of samplers run it beside those that are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from ablate.core.knobs import Knob
from ablate.diffusion.grids import Level
from ablate.samplers.kernel import Denoiser, Info, State
from ablate.samplers.registry import Sampler


class Past(NamedTuple):
    """What the next step needs to know of the last one."""

    slope: Tensor  # dy/ds there, [B, ...]
    step: float  # its length in s


def no_past(state: State, weight: float) -> Past:
    """Before the first step: one of infinite length counts for nothing, which is Euler's method."""
    return Past(state.y.new_zeros(state.y.shape), -math.inf)


def adams_bashforth(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, weight: float
) -> tuple[State, Info]:
    """y + h (f + weight (f - f_past) h / (2 h_past)), f = dy/ds = (y - D(y; s)) / s.

    Second order at weight = 1, Euler's method at 0 and on the step that ends on s = 0.
    """
    y = state.y - level.shift
    step = level.s_next - level.s
    slope = (y - denoiser(y, level.s)) / level.s
    ratio = step / state.memory.step if level.s_next > 0 else 0.0
    move = step * (slope + weight * ratio / 2 * (slope - state.memory.slope))
    return State(y + move + level.shift_next, state.sign, Past(slope, step)), Info()


ADAMS_BASHFORTH = Sampler(
    "adams-bashforth",
    "probability flow, Adams and Bashforth's two-step method",
    adams_bashforth,
    order=2,
    stochastic=False,
    own=(Knob("weight", "of the last step's slope", low=0, high=1, default=1),),
    init=no_past,
)
