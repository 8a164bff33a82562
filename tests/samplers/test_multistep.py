"""Multistep solvers: the order of the method itself, and their formulas written out."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from ablate.diffusion.grids import geometric, plan
from ablate.diffusion.processes import GBM
from ablate.samplers.data_prediction import data_step
from ablate.samplers.interpolation import Point, integral_weights
from ablate.samplers.kernel import State
from ablate.samplers.registry import SAMPLERS
from ablate.samplers.unipc import Past
from tests.samplers.runs import drive_sampler
from tests.support.beds import normal, one_mode, two_modes

PROCESS = GBM(0.8)
S_MIN = 0.05


def flow(s: float, start: Tensor) -> Tensor:
    """The exact flow of the log-normal, from y at s = 0.8 to y at s."""
    mean, v = one_mode().means, one_mode().variances
    return mean + ((v + s**2) / (v + 0.8**2)).sqrt() * (start - mean)


def exact_memory(name: str, s: list[float], start: Tensor) -> Any:
    """A solver's memory before the level after these, the newest last, by the exact flow."""
    oracle = one_mode()
    denoised = {u: oracle.denoised(flow(u, start), u) for u in s}
    if name in {"ipndm", "deis"}:
        return tuple(Point(u, (flow(u, start) - denoised[u]) / u) for u in reversed(s))
    points = tuple(Point(u, denoised[u]) for u in reversed(s))
    return Past(flow(s[-1], start), points) if name == "unipc" else points


def seeded_error(name: str, own: dict[str, Any], grid: Tensor, past: int) -> float:
    """The error at the end of a grid, from the level after `past` others with exact memories."""
    start, walked = normal((20, 1), 4), plan(PROCESS, grid)[:-1]
    s = grid.tolist()
    state = State.of_log(flow(s[past], start))
    state = state._replace(memory=exact_memory(name, s[:past], start))
    kernel = SAMPLERS[name].kernel(own)
    for level in walked[past:]:
        state, _ = kernel(one_mode().denoised, state, level, start)
    return float((state.y - flow(s[-2], start)).abs().max())


def even_in_s(steps: int) -> Tensor:
    zero = torch.zeros(1, dtype=torch.float64)
    return torch.cat([torch.linspace(0.8, 0.2, steps + 1, dtype=torch.float64), zero])


@pytest.mark.parametrize(
    ("name", "memory", "even", "order"),
    [
        ("dpm++2m", None, False, 2),
        ("dpm++3m", None, False, 3),
        *(("ipndm", memory, True, memory) for memory in (1, 2, 3, 4)),
        *(("ipndm", memory, False, 2) for memory in (2, 3, 4)),
        *(("deis", memory, False, memory) for memory in (1, 2, 3, 4)),
        *(("unipc", memory, False, memory + 1) for memory in (1, 2)),
        ("unipc", 3, True, 4),
    ],
)
def test_order_with_an_exact_memory(name: str, memory: int | None, even: bool, order: int) -> None:
    """Without the error of the first steps: the order of the method.

    The slope between h and h/2 is p + c' h + O(h²), so 2 slope(h/2) - slope(h) is p + O(h²). Its
    O(h²) is below the coarsest grid's h; that of high orders is coarser, lest rounding shows. The
    predictor of UniPC-p is of order p and its corrector, which has the last word at every level but
    the last, of order p + 1.
    """
    own = {} if memory is None else {"memory": memory}
    past = memory or {"dpm++2m": 2, "dpm++3m": 3}[name]
    first = 256 if order <= 2 else 128
    steps = (first, 2 * first, 4 * first)
    grids = [even_in_s(n) if even else geometric(PROCESS, n + 2, S_MIN) for n in steps]
    errors = [seeded_error(name, own, grid, past) for grid in grids]
    assert min(errors) > 1e-13  # rounding adds some 1e-16 a step
    coarse, fine = (math.log2(a / b) for a, b in pairwise(errors))
    assert 2 * fine - coarse == pytest.approx(order, abs=math.log(0.8 / S_MIN) / first)


def two_nodes_by_hand(y: Tensor, q: float, r: float, here: Tensor, before: Tensor) -> Tensor:
    """Algorithm 2 of DPM-Solver++: r = h_past/h, D = (1 + 1/(2r)) D_0 - 1/(2r) D_1."""
    return q * y + (1 - q) * ((1 + 1 / (2 * r)) * here - before / (2 * r))


def test_dpm_2m_is_algorithm_2() -> None:
    oracle, grid = two_modes(), geometric(PROCESS, 8, S_MIN)
    start, s = normal((20, 1), 5), grid.tolist()
    drawn = drive_sampler(
        SAMPLERS["dpm++2m"], oracle.denoised, start, plan(PROCESS, grid), lambda j: start
    )
    y, past = start, None
    for i in range(len(s) - 2):
        here, q = oracle.denoised(y, s[i]), s[i + 1] / s[i]
        if past is None:
            y = q * y + (1 - q) * here
        else:
            r = math.log(s[i - 1] / s[i]) / math.log(s[i] / s[i + 1])
            y = two_nodes_by_hand(y, q, r, here, past)
        past = here
    y = oracle.denoised(y, s[-2])
    torch.testing.assert_close(drawn.x.log(), y, rtol=1e-12, atol=1e-12)


def by_the_paper(y: Tensor, s: float, s_next: float, here: Tensor, others: list[Point]) -> Tensor:
    """UniPC's update for data prediction, y <- q y + (1 - q) D + Σ_m a_m (D_m - D).

    The weights solve Σ_m a_m r_m^k = ∫_0^1 h exp(-h (1 - u)) u^k du for k = 1, 2, …, with
    r_m = (lambda_m - lambda)/h; the integrals are by quadrature.
    """
    h = math.log(s / s_next)
    r = [math.log(s / point.s) / h for point in others]
    integrals = [
        quad(lambda u, k=k: math.exp(-h * (1 - u)) * h * u**k, 0, 1, epsabs=1e-15)[0]
        for k in range(1, len(r) + 1)
    ]
    matrix = np.array([[rate**k for rate in r] for k in range(1, len(r) + 1)])
    weights = np.linalg.solve(matrix, np.array(integrals)).tolist()
    ahead = s_next / s * y + (1 - s_next / s) * here
    for weight, point in zip(weights, others, strict=True):
        ahead = ahead + weight * (point.value - here)
    return ahead


@pytest.mark.parametrize("nodes", [(0.7, 0.8), (0.45, 0.7), (0.45, 0.7, 0.8)])
def test_three_nodes_and_more_solve_unipc_s_system(nodes: tuple[float, ...]) -> None:
    """Of the past for the predictor, and s_next = 0.45 for the corrector."""
    y, here = normal((6, 2), 1), normal((6, 2), 2)
    others = [Point(s, normal((6, 2), 3 + i)) for i, s in enumerate(nodes)]
    found = data_step(y, 0.6, 0.45, [Point(0.6, here), *others])
    expected = by_the_paper(y, 0.6, 0.45, here, others)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_unipc_corrects_with_half_the_difference_first() -> None:
    """UniC-1 with B(h) = exp(h) - 1, a_1 = 1/2, after a first step of DDIM; then UniP-2."""
    oracle, grid = two_modes(), geometric(PROCESS, 6, S_MIN)
    start, s = normal((20, 1), 6), grid.tolist()
    walked, kernel = plan(PROCESS, grid), SAMPLERS["unipc"].kernel({"memory": 2})
    state = State.of_log(start)
    for level in walked[:2]:
        state, _ = kernel(oracle.denoised, state, level, start)
    q = s[1] / s[0]
    first = oracle.denoised(start, s[0])
    predicted = q * start + (1 - q) * first
    second = oracle.denoised(predicted, s[1])
    corrected = predicted + (1 - q) * (second - first) / 2
    expected = two_nodes_by_hand(corrected, s[2] / s[1], 1.0, second, first)
    torch.testing.assert_close(state.y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_even_steps_give_the_classic_weights(count: int) -> None:
    """DEIS on even steps is iPNDM, whose weights are those of Adams and Bashforth's tables."""
    oracle, grid, start = two_modes(), even_in_s(12), normal((20, 1), 7)
    runs = [
        drive_sampler(
            SAMPLERS[name],
            oracle.denoised,
            start,
            plan(PROCESS, grid),
            lambda j: start,
            own={"memory": count},
        ).x.log()
        for name in ("ipndm", "deis")
    ]
    torch.testing.assert_close(*runs, rtol=1e-10, atol=1e-10)


def test_weights_integrate_lagrange_polynomials() -> None:
    nodes, step = [0.0, 0.1, 0.25, 0.3], -0.2
    weights = integral_weights(nodes, [step ** (i + 1) / (i + 1) for i in range(4)])
    for j, weight in enumerate(weights):
        others = [node for i, node in enumerate(nodes) if i != j]

        def lagrange(u: float, others: list[float] = others, at: float = nodes[j]) -> float:
            return math.prod((u - other) / (at - other) for other in others)

        assert weight == pytest.approx(quad(lagrange, 0, step)[0], rel=1e-10)


def test_one_slope_is_euler_s_method() -> None:
    start, levels = normal((20, 1), 8), plan(PROCESS, geometric(PROCESS, 9, S_MIN))
    euler, *others = (
        drive_sampler(
            SAMPLERS[name], two_modes().denoised, start, levels, lambda j: start, own=own
        ).x
        for name, own in (("pf-euler", {}), ("ipndm", {"memory": 1}), ("deis", {"memory": 1}))
    )
    for other in others:
        torch.testing.assert_close(other, euler, rtol=1e-12, atol=0)
