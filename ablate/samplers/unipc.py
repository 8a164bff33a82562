"""UniPC (Zhao et al. 2023): a predictor and a corrector that share one evaluation a level.

The evaluation at a level first corrects the state that the last step predicted there, then predicts
the next. D is not evaluated again at the corrected state. Data prediction, B(h) = exp(h) - 1.

The corrector adds one to the order. It corrects the first step too, which leaves an error of O(h³)
made once: from two evaluations on the method converges with order 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ablate.samplers.data_prediction import data_step
from ablate.samplers.interpolation import Point
from ablate.samplers.kernel import Denoiser, Info, State

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level


class Past(NamedTuple):
    """What a step leaves for the next."""

    y: Tensor  # the corrected state at the last level, without its shift, [B, ...]
    points: tuple[Point, ...]  # D at the last levels, the newest first


def unipc(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, memory: int = 3
) -> tuple[State, Info]:
    """UniPC-p with p = `memory`: Algorithm 1 (UniC-p) on the last step, Algorithm 2 (UniP-p) ahead.

    Both integrate exp(-(h - u)) D(u) with D the polynomial through evaluations: the corrector's
    goes through the new one and p before it, the predictor's through the new one and p - 1.
    On the first steps p is the number of evaluations there are. The step to s = 0 ends on D.
    """
    y = state.y - level.shift
    denoised = denoiser(y, level.s)
    here, past = Point(level.s, denoised), state.memory
    before = () if past is None else past.points
    if before:
        y = data_step(past.y, before[0].s, level.s, (here, *before))
    points = (here, *before)[:memory]
    ahead = data_step(y, level.s, level.s_next, points) if level.s_next > 0 else denoised
    return state._replace(y=ahead + level.shift_next, memory=Past(y, points)), Info()
