"""Past evaluations of a multistep solver, and the weights of the polynomial through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.samplers.kernel import State


class Point(NamedTuple):
    """What a solver keeps of one evaluation."""

    s: float
    value: Tensor  # the denoised D or the slope dy/ds, [B, ...]


def recalled(state: State, newest: Point, count: int) -> tuple[Point, ...]:
    """The last `count` points, the newest first; fewer on the first steps."""
    return (newest, *(state.memory or ()))[:count]


def integral_weights(nodes: Sequence[float], moments: Sequence[float]) -> list[float]:
    """w with Σ_j w_j p(x_j) = ∫ p(x) k(x) dx for every polynomial p of degree below len(nodes).

    w_j is the integral of the j-th Lagrange polynomial, Π_{i≠j} (x - x_i)/(x_j - x_i).
    moments: ∫ x^i k(x) dx for i = 0, 1, …, one for each node.
    """
    weights = []
    for j, node in enumerate(nodes):
        coefficients = [1.0]  # of 1, x, x², …
        for other in (*nodes[:j], *nodes[j + 1 :]):
            raised, same = [0.0, *coefficients], [*coefficients, 0.0]
            coefficients = [
                (a - other * b) / (node - other) for a, b in zip(raised, same, strict=True)
            ]
        weights.append(sum(c * m for c, m in zip(coefficients, moments, strict=True)))
    return weights


def weighted_sum(weights: Sequence[float], points: Sequence[Point]) -> Tensor:
    """Σ_j w_j value_j, [B, ...]."""
    total = weights[0] * points[0].value
    for weight, point in zip(weights[1:], points[1:], strict=True):
        total = total.add(point.value, alpha=weight)
    return total
