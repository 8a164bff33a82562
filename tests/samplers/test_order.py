"""Order of convergence: what every sampler declares is the slope of its error as steps get smaller.

On log-normals, where both the reverse SDE and the probability flow have exact solutions. Grids are
geometric, from s = 0.8 to s_min > 0, in steps of h = log(s_max/s_min)/steps: the last step, to
s = 0, has no order, for it is D(y; s_min) for every solver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import Level, geometric, plan
from ablate.diffusion.processes import GBM
from ablate.samplers.registry import SAMPLERS, Sampler
from tests.samplers.adams_bashforth import ADAMS_BASHFORTH
from tests.samplers.runs import drive_sampler, every_flow, every_sampler
from tests.support.beds import generator, normal

S_MIN, COUNT = 0.05, 10_000
LOG_RATIO = math.log(0.8 / S_MIN)


class Bed(NamedTuple):
    """A log-normal, guided with weight w by another of the same mean and variance `guide`.

    D is linear, so that with v(s) = variance + s² and g(s) = guide + s² the reverse SDE takes
    y - mean from s to s' by the factor P(s', s) = (v(s')/v(s))^w (g(s')/g(s))^(1-w), the flow by
    its root. Without a guide, w = 1.
    """

    mean: float
    variance: float
    weight: float = 1.0
    guide: float = 1.0

    def denoised(self, y: Tensor, s: float) -> Tensor:
        gain, guide = (v / (v + s**2) for v in (self.variance, self.guide))
        return self.mean + (self.weight * gain + (1 - self.weight) * guide) * (y - self.mean)

    def factor(self, here: float, there: float) -> float:
        own, guide = ((v + there**2) / (v + here**2) for v in (self.variance, self.guide))
        return float(own**self.weight * guide ** (1 - self.weight))

    def flow(self, here: float, there: float) -> float:
        return math.sqrt(self.factor(here, there))

    def reverse(self, here: float, there: float) -> tuple[float, float]:
        """(factor, spread) of an exact step of the reverse SDE: the noise of level s arrives with
        P(s', s), so the variance is the integral of P² over s², here by Gauss-Legendre with 12
        points; over a step of 1 % P hardly bends."""
        points, weights = np.polynomial.legendre.leggauss(12)
        middle, half = (here**2 + there**2) / 2, (here**2 - there**2) / 2
        at = [math.sqrt(middle + half * point) for point in points]
        variance = sum(
            w * half * self.factor(s, there) ** 2 for w, s in zip(weights, at, strict=True)
        )
        return self.factor(here, there), math.sqrt(variance)


WIDE = Bed(0.3, 0.8**2)
"""As wide as the first level. Of a narrow law D is nearly constant at the top, so that what the
first step of a multistep solver gets wrong would show on the finest grids only."""

NARROW = Bed(0.3, 0.1**2)


class Error(NamedTuple):
    value: float
    noise: float  # standard error of the value


def levels(steps: int, sampler: Sampler | None = None) -> list[Level]:
    """The plan but for its end on s = 0; with a sampler, along its own path down to S_MIN."""
    process = GBM(0.8, mu=0.9)
    grid = geometric(process, steps + 2, S_MIN)
    walked = plan(process, grid if sampler is None else sampler.visited(grid))
    last = next(j for j, step in enumerate(walked) if step.s_next == grid[-2])
    assert last + 1 >= steps
    return walked[: last + 1]


def flow_error(
    sampler: Sampler, steps: int, own: Mapping[str, Any] | None = None, bed: Bed = WIDE
) -> Error:
    """Against the exact flow, at s_min > 0."""
    walked = levels(steps)
    start = normal((20, 1), 4)
    noise = torch.full((20, 1), math.nan, dtype=torch.float64)  # must not be looked at
    drawn = drive_sampler(sampler, bed.denoised, start, walked, lambda j: noise, own=own)
    scale = bed.flow(walked[0].s, walked[-1].s_next)
    exact = bed.mean + scale * (start - walked[0].shift - bed.mean) + walked[-1].shift_next
    return Error(float((drawn.x.log() - exact).abs().max()), 0.0)


def law_error(sampler: Sampler, steps: int, bed: Bed = NARROW) -> Error:
    """E f(y) at the end less what the exact law has, for f(y) = exp(-(y - mean)²/(2 (v + s_min²))).

    From the exact law at the start. A second chain takes the bed's exact steps with the same z, so
    that the difference of the two has the error for its mean, and little noise. A sampler with a
    path of its own has noise on its climbs, where the exact step is y' = y + √(w' - w) z, and walks
    down the flow. f is bounded: a few values far away do not decide.
    """
    walked, source = levels(steps, sampler), generator(steps)
    exact = math.sqrt(bed.variance + walked[0].s ** 2) * normal((COUNT, 1), steps)
    start = bed.mean + exact + walked[0].shift

    def noise(j: int) -> Tensor:
        nonlocal exact
        z = torch.randn((COUNT, 1), generator=source, dtype=torch.float64)
        here, there = walked[j].s, walked[j].s_next
        if there > here:
            exact = exact + math.sqrt(there**2 - here**2) * z
        elif sampler.path:
            exact = bed.flow(here, there) * exact
        else:
            scale, spread = bed.reverse(here, there)
            exact = scale * exact + spread * z
        return z

    x = drive_sampler(sampler, bed.denoised, start, walked, noise).x
    ended = x.abs().log() - walked[-1].shift_next - bed.mean
    f, f_exact = (torch.exp(-(y**2) / (2 * (bed.variance + S_MIN**2))) for y in (ended, exact))
    difference = f - f_exact
    return Error(float(difference.mean()), float(difference.std()) / math.sqrt(COUNT))


@every_sampler
def test_slope_is_the_declared_order(sampler: Sampler) -> None:
    """error = c h^p (1 + c' h + …) with c' of order 1 at most: between h and h/4 the slope is p
    within h, and four standard errors of the two. In law for stochastic samplers; order 0 is that
    of a sampler whose error stays."""
    check_slope(sampler, WIDE, NARROW)


@every_sampler
def test_slope_with_a_guide(sampler: Sampler) -> None:
    """A Gaussian guided by a wider one has a linear flow and a linear reverse SDE, so that the law
    of the guided samples is known; every sampler reaches it at its order. It is not the tilted
    density p^w / p_guide^(w-1), which is Gaussian, too, and narrower: see `test_guided_law`."""
    check_slope(
        sampler, WIDE._replace(weight=2.0, guide=1.0), NARROW._replace(weight=2.0, guide=0.1)
    )


def test_guided_law() -> None:
    """Exact steps compose; weight 1 is the unguided law; and the flow's end at s = 0 has variance
    v (v + s²) / v (v / (v + s²))^w …, which is not the tilted 1 / (w/v - (w-1)/g)."""
    guided = Bed(0.0, 0.1**2, weight=2.0, guide=0.2**2)
    (a, noise_a), (b, noise_b) = guided.reverse(0.8, 0.4), guided.reverse(0.4, 0.35)
    whole = guided.reverse(0.8, 0.35)
    assert a * b == pytest.approx(whole[0], rel=1e-12)
    # Gauss-Legendre of 12 points on a ratio of 5 in v(s): about 1e-9
    assert math.hypot(b * noise_a, noise_b) == pytest.approx(whole[1], rel=1e-8)
    plain = guided._replace(weight=1.0)
    v, w, w_next = 0.01, 0.64, 0.16
    exact = ((v + w_next) / (v + w), math.sqrt((v + w_next) * (w - w_next) / (v + w)))
    assert plain.reverse(0.8, 0.4) == pytest.approx(exact, rel=1e-8)
    ended = guided.flow(3.0, 0.0) ** 2 * (0.01 + 9.0)
    tilted = 1 / (2 / 0.01 - 1 / 0.04)
    assert ended == pytest.approx(0.01**2 / 0.04 * 9.04 / 9.01, rel=1e-12)
    assert ended < 0.5 * tilted


def check_slope(sampler: Sampler, wide: Bed, narrow: Bed) -> None:
    """The sampler's order on one bed, by its kind.

    D and all its derivatives are at most w + |w - 1| times as large as without a guide, and so is
    c'.
    """
    roughness = wide.weight + abs(wide.weight - 1)

    def measure(sampler: Sampler, steps: int) -> Error:
        if sampler.stochastic:
            return law_error(sampler, steps, narrow)
        return flow_error(sampler, steps, bed=wide)

    coarse, fine = measure(sampler, 64), measure(sampler, 256)
    slope = math.log(coarse.value / fine.value, 4)
    noise = math.hypot(coarse.noise / coarse.value, fine.noise / fine.value) / math.log(4)
    tolerance = roughness * LOG_RATIO / 64 + 4 * noise
    assert tolerance < 0.25  # so that orders are distinguished
    assert slope == pytest.approx(sampler.order, abs=tolerance)
    if sampler.order == 0:
        assert abs(fine.value) > 0.1  # f lies in [0, 1]


def assert_order(order: int, errors: list[Error], reach: int = 1) -> None:
    """The slope between h and h/2 is p + c' h/(2 ln 2) + O(h²): p within h for each of the `reach`
    levels that a step looks back over, nearer each time, and p within h without its linear term,
    2 slope(h/2) - slope(h); the first error is that of 128 steps."""
    slopes = [math.log2(a.value / b.value) for a, b in pairwise(errors)]
    off = [abs(slope - order) for slope in slopes]
    assert max(off) < reach * LOG_RATIO / 128
    assert off == sorted(off, reverse=True)
    extrapolated = [2 * b - a for a, b in pairwise(slopes)]
    assert max(abs(slope - order) for slope in extrapolated) < LOG_RATIO / 128


@every_flow
def test_order_of_convergence(sampler: Sampler) -> None:
    errors = [flow_error(sampler, steps) for steps in (128, 256, 512, 1024)]
    assert_order(sampler.order, errors, reach=sampler.own_values({}).get("memory", 1))


@pytest.mark.parametrize(("weight", "order"), [(0.0, 1), (1.0, 2)])
def test_memory_and_own_knobs_reach_the_step(weight: float, order: int) -> None:
    """The two-step method is of second order because of what it remembers; its own knob turns
    that off, and Euler's method is left."""
    steps = (128, 256, 512, 1024)
    errors = [flow_error(ADAMS_BASHFORTH, n, {"weight": weight}) for n in steps]
    assert_order(order, errors)
    by_euler = [flow_error(SAMPLERS["pf-euler"], n) for n in steps]
    assert (errors == by_euler) is (weight == 0)


def test_heun_beats_euler_for_the_same_evaluations() -> None:
    heun, euler = (SAMPLERS[name] for name in ("pf-heun", "pf-euler"))
    assert flow_error(heun, 16).value < flow_error(euler, 32).value / 4
