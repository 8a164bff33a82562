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

import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import Level, geometric, plan
from ablate.diffusion.oracles import log_normal
from ablate.diffusion.processes import GBM
from ablate.samplers.registry import SAMPLERS, Sampler
from tests.samplers.adams_bashforth import ADAMS_BASHFORTH
from tests.samplers.runs import drive_sampler, every_flow, every_sampler
from tests.support.beds import generator, normal, one_mode

S_MIN, COUNT = 0.05, 10_000
LOG_RATIO = math.log(0.8 / S_MIN)

WIDE = log_normal(torch.tensor([0.3]).double(), torch.tensor([0.8]).double() ** 2)
"""As wide as the first level. Of a narrow law D is nearly constant at the top, so that what the
first step of a multistep solver gets wrong would show on the finest grids only."""


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


def flow_error(sampler: Sampler, steps: int, own: Mapping[str, Any] | None = None) -> Error:
    """Against the exact flow y(s) = mean + √((v + s²)/(v + s_0²)) (y_0 - mean), at s_min > 0."""
    oracle, walked = WIDE, levels(steps)
    start = normal((20, 1), 4)
    noise = torch.full((20, 1), math.nan, dtype=torch.float64)  # must not be looked at
    drawn = drive_sampler(sampler, oracle.denoised, start, walked, lambda j: noise, own=own)
    mean, v = oracle.means, oracle.variances
    scale = ((v + walked[-1].s_next ** 2) / (v + walked[0].s ** 2)).sqrt()
    exact = mean + scale * (start - walked[0].shift - mean) + walked[-1].shift_next
    return Error(float((drawn.x.log() - exact).abs().max()), 0.0)


def law_error(sampler: Sampler, steps: int) -> Error:
    """E f(y) at the end less what the exact law has, for f(y) = exp(-(y - mean)²/(2 (v + s_min²))).

    From the exact law at the start. A step of the reverse SDE from w = s² to w' is, exactly,
    y' - mean = (v + w')/(v + w) (y - mean) + √((v + w')(w - w')/(v + w)) z: a second chain takes
    it with the same z, so that the difference of the two has the error for its mean, and little
    noise. A sampler with a path of its own has noise on its climbs, where the exact step is
    y' = y + √(w' - w) z, and walks down the flow. f is bounded: a few values far away do not
    decide.
    """
    oracle, walked, source = one_mode(), levels(steps, sampler), generator(steps)
    mean, v = float(oracle.means), float(oracle.variances)
    exact = math.sqrt(v + walked[0].s ** 2) * normal((COUNT, 1), steps)
    start = mean + exact + walked[0].shift

    def noise(j: int) -> Tensor:
        nonlocal exact
        z = torch.randn((COUNT, 1), generator=source, dtype=torch.float64)
        here, there = v + walked[j].s ** 2, v + walked[j].s_next ** 2
        if there > here:
            exact = exact + math.sqrt(there - here) * z
        elif sampler.path:
            exact = math.sqrt(there / here) * exact
        else:
            exact = there / here * exact + math.sqrt(there * (here - there) / here) * z
        return z

    x = drive_sampler(sampler, oracle.denoised, start, walked, noise).x
    ended = x.abs().log() - walked[-1].shift_next - mean
    f, f_exact = (torch.exp(-(y**2) / (2 * (v + S_MIN**2))) for y in (ended, exact))
    difference = f - f_exact
    return Error(float(difference.mean()), float(difference.std()) / math.sqrt(COUNT))


@every_sampler
def test_slope_is_the_declared_order(sampler: Sampler) -> None:
    """error = c h^p (1 + c' h + …) with c' of order 1 at most: between h and h/4 the slope is p
    within h, and four standard errors of the two. In law for stochastic samplers; order 0 is that
    of a sampler whose error stays."""
    measure = law_error if sampler.stochastic else flow_error
    coarse, fine = measure(sampler, 64), measure(sampler, 256)
    slope = math.log(coarse.value / fine.value, 4)
    noise = math.hypot(coarse.noise / coarse.value, fine.noise / fine.value) / math.log(4)
    tolerance = LOG_RATIO / 64 + 4 * noise
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
