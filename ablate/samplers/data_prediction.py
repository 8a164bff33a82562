"""Steps of the probability flow with the denoised image D as what is interpolated.

In lambda = -log s, which is half the log-SNR, the flow is dy/dlambda = D - y. A step over
h = log(s/s_next) is, exactly,

    y_next = exp(-h) y + ∫_0^h exp(-(h - u)) D(u) du

(Lu et al. 2022, DPM-Solver++, Proposition 4.1, with alpha = 1 and sigma = s). D(u) is replaced by
the polynomial through a few evaluations. DPM-Solver++ and UniPC differ in which ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ablate.samplers.interpolation import Point, integral_weights, weighted_sum

if TYPE_CHECKING:
    from torch import Tensor


def data_step(y: Tensor, s: float, s_next: float, points: Sequence[Point]) -> Tensor:
    """y at s_next > 0 from y at s and evaluations of D, those at s among them; y: [B, ...]."""
    h = math.log(s / s_next)
    nodes = [math.log(s / point.s) for point in points]
    return (s_next / s) * y + weighted_sum(_weights(h, nodes), points)


def _weights(h: float, nodes: Sequence[float]) -> list[float]:
    """The weights of D at these nodes u, one of which is 0.

    Two nodes have those of Algorithm 2 of DPM-Solver++, which are UniPC's with B(h) = exp(h) - 1
    and a_1 = 1/2: with the line's value at the middle, u = h/2, held over the step. They differ
    from the line's integral by O(h³). Three nodes and more have the polynomial's integral.
    """
    if len(nodes) == 2:
        middle = integral_weights(nodes, [1.0, h / 2])
        return [-math.expm1(-h) * weight for weight in middle]
    return integral_weights(nodes, _moments(h, len(nodes)))


def _moments(h: float, count: int) -> list[float]:
    """∫_0^h exp(-(h - u)) u^i du for i = 0, 1, …: by parts, M_i = h^i - i M_{i-1}."""
    moments = [-math.expm1(-h)]
    for i in range(1, count):
        moments.append(h**i - i * moments[-1])
    return moments
