"""iPNDM and tAB-DEIS: Adams-Bashforth for dy/ds = (y - D(y; s)) / s, one evaluation a level.

The slope dy/ds is the noise prediction: y = D + s eps. Both methods extrapolate it from the last
few levels. A first step with one slope is Euler's and leaves an error of O(h²), made once: with
dense levels it decides, so both converge with order 2 from two slopes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.samplers.interpolation import Point, integral_weights, recalled, weighted_sum
from ablate.samplers.kernel import Denoiser, Info, State

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level

EVEN_STEPS = (
    (1.0,),
    (3 / 2, -1 / 2),
    (23 / 12, -16 / 12, 5 / 12),
    (55 / 24, -59 / 24, 37 / 24, -9 / 24),
)
"""Weights of the last 1 to 4 slopes for even steps, the newest slope first."""


def ipndm(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, memory: int = 4
) -> tuple[State, Info]:
    """y <- y + (s_next - s) Σ_j w_j slope_j with the weights of even steps (Zhang & Chen 2022).

    With four slopes (55, -59, 37, -9)/24. The weights are the same on every grid. Where steps are
    even in s the order is that of the number of slopes; on grids whose neighbouring steps differ
    by a share O(h), as geometric and Karras levels do, it is 2.
    """
    y = state.y - level.shift
    points = _slopes(denoiser, y, state, level, memory)
    weights = [(level.s_next - level.s) * w for w in EVEN_STEPS[len(points) - 1]]
    return _moved(state, level, y, weights, points)


def deis(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, memory: int = 3
) -> tuple[State, Info]:
    """y <- y + ∫_s^s_next P(u) du, P the polynomial in s through the last slopes.

    tAB-DEIS (Zhang & Chen 2022, Eqs. 14 and 15) with t = s, where its transition matrix and its
    weighting are 1: the Adams-Bashforth method for uneven steps, also known as iPNDM_v.
    """
    y = state.y - level.shift
    points = _slopes(denoiser, y, state, level, memory)
    step = level.s_next - level.s
    nodes = [point.s - level.s for point in points]
    moments = [step ** (i + 1) / (i + 1) for i in range(len(points))]
    return _moved(state, level, y, integral_weights(nodes, moments), points)


def _slopes(
    denoiser: Denoiser, y: Tensor, state: State, level: Level, count: int
) -> tuple[Point, ...]:
    """The slope here and those before it; on the step to s = 0, which ends on D, this one alone."""
    slope = (y - denoiser(y, level.s)) / level.s
    return recalled(state, Point(level.s, slope), count if level.s_next > 0 else 1)


def _moved(
    state: State, level: Level, y: Tensor, weights: list[float], points: tuple[Point, ...]
) -> tuple[State, Info]:
    ahead = y + weighted_sum(weights, points)
    return state._replace(y=ahead + level.shift_next, memory=points), Info()
