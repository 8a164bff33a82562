"""The noise that literal steps leave on a grid: closed forms against steps taken one by one."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import Step, geometric, plan, uniform
from ablate.diffusion.processes import GBM, VEGBM, Process
from ablate.samplers import laws
from ablate.samplers.kernel import State
from ablate.samplers.laws import Law
from ablate.samplers.noise_ratio import (
    LARGEST,
    limit_variances,
    literal_variances,
    noise_ratios,
)
from ablate.samplers.registry import SAMPLERS
from tests.support.beds import normal

CONSTANT, GROWING = GBM(0.8), VEGBM(0.1, 1.2)

SETTINGS = [
    pytest.param(laws.adls, 1.0, 1.0, 1, id="dale-langevin"),
    pytest.param(laws.adls, 0.995, 0.586, 1, id="paper"),
    pytest.param(laws.asams, 0.9995, 0.429, 3, id="never-settles"),
    pytest.param(laws.adls, 0.9995, "law", 2, id="law"),
    pytest.param(laws.consistent, 0.995, 1.0, 6, id="consistent"),
]
GRIDS = [
    pytest.param(CONSTANT, uniform(CONSTANT, 50), id="uniform"),
    pytest.param(CONSTANT, geometric(CONSTANT, 12, 0.03), id="geometric"),
    pytest.param(GROWING, uniform(GROWING, 20), id="vegbm"),
]


@pytest.mark.parametrize(("process", "grid"), GRIDS)
@pytest.mark.parametrize(("law", "chi", "r", "L"), SETTINGS)
def test_literal_variance_is_that_of_the_plan_step_by_step(
    process: Process, grid: Tensor, law: Law, chi: float, r: Step, L: int
) -> None:
    """Var e <- (1 - a dv/v)² Var e + b² dv for every step of the plan that samplers walk."""
    variance, found = float(grid[0]) ** 2, []
    steps = plan(process, grid, chi=chi, r=1.0 if law is laws.consistent else r, L=L)
    for step, after in pairwise(steps):
        one = torch.ones((), dtype=torch.float64)
        rates = law(step.kappa * one, one)  # the plan's variance holds r already
        pull = float(rates.pull) * step.variance / step.s**2
        noise = float(rates.noise) * step.variance
        variance = (1 - pull) ** 2 * variance + noise
        if after.s != step.s:
            found.append(variance / step.s_next**2)
    expected = literal_variances(process, grid, law, chi=chi, r=r, L=L)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("process", "grid"), GRIDS)
@pytest.mark.parametrize(("law", "chi", "r", "L"), SETTINGS)
def test_limit_variance_is_that_of_many_literal_steps(
    process: Process, grid: Tensor, law: Law, chi: float, r: Step, L: int
) -> None:
    """Levels in between, twice as many each time: the error is of first order, so that twice the
    finer result minus the coarser one is left with the second order, 1e-4 or less."""

    def refined(parts: int) -> Tensor:
        shares = torch.arange(parts, dtype=torch.float64) / parts
        between = grid[:-2, None] * (grid[1:-1, None] / grid[:-2, None]) ** shares
        fine = torch.cat([between.flatten(), grid[-2:]])
        return torch.tensor(literal_variances(process, fine, law, chi=chi, r=r))[parts - 1 :: parts]

    expected = limit_variances(process, grid, law, chi=chi, r=r)
    found = 2 * refined(1000) - refined(500)
    assert found.tolist() == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize("L", [1, 3])
@pytest.mark.parametrize("pull", [0.6, 0.75, 1.0, 1.2])
def test_on_geometric_grids_the_ratio_settles_at_its_closed_form(pull: float, L: int) -> None:
    """b² x/((1 - x) - (1 - a x)²) over b²/(2a - 1) for L = 1; 2,000 levels are enough to settle."""
    s = 0.95 ** torch.arange(2000, dtype=torch.float64)
    grid, x = torch.cat([s, torch.zeros(1).double()]), 1 - 0.95**2
    once = (1 - pull * x / L) ** 2
    noise = x / L * (1 - once**L) / (1 - once) / (1 - x - once**L)
    assert noise_ratios(GBM(1.0), grid, laws.adls, r=pull, L=L)[-1] == pytest.approx(
        noise * (2 * pull - 1), rel=1e-9
    )
    if L == 1:
        g = 0.95
        design = (1 - g**2) / (g**2 - (1 - pull * (1 - g**2)) ** 2)
        assert noise == pytest.approx(design, rel=1e-12)
        assert noise * (2 * pull - 1) == pytest.approx(
            (2 * pull - 1) / (2 * pull - 1 - pull**2 * x)
        )


@pytest.mark.parametrize(("levels", "excess"), [(12, 0.39), (32, 0.12)])
def test_on_few_levels_the_network_is_given_a_level_too_low(levels: int, excess: float) -> None:
    """From 0.8 to 0.03 the noise has 1/g times the standard deviation that the network is given:
    39 % more on 12 levels, 12 % more on 32 (to the last digit, half a per cent)."""
    ratio = noise_ratios(CONSTANT, geometric(CONSTANT, levels, 0.03), laws.adls)[-1]
    g = (0.03 / 0.8) ** (1 / (levels - 2))
    assert math.sqrt(ratio) == pytest.approx(1 / g, rel=2e-3)  # 1 - g^(2 (N - 2)) of it is settled
    assert math.sqrt(ratio) - 1 == pytest.approx(excess, abs=5e-3)


@pytest.mark.parametrize(("law", "chi", "r", "L"), SETTINGS)
def test_the_ratio_goes_to_one_at_first_order(law: Law, chi: float, r: Step, L: int) -> None:
    def error(levels: int) -> float:
        grid = geometric(CONSTANT, levels, 0.03)
        return noise_ratios(CONSTANT, grid, law, chi=chi, r=r, L=L)[-1] - 1

    fine, finer = error(2002), error(4002)
    assert abs(finer) < 0.01
    assert fine / finer == pytest.approx(2, abs=0.02)


def test_a_real_run_has_this_noise() -> None:
    """ADLS and D = 0 on 12 levels: the variance of 100,000 samples, within 4 standard errors."""
    count, grid = 100_000, geometric(CONSTANT, 12, 0.03)
    steps = plan(CONSTANT, grid, chi=0.9995, r=0.75)
    y, z = 0.8 * normal((count,), 0), normal((len(steps), count), 1)
    sampler = SAMPLERS["adls"].kernel()
    state = State(y[:, None], torch.ones(count, 1))
    for step, noise in zip(steps[:-1], z, strict=False):
        state, _ = sampler(lambda y, s: 0 * y, state, step, noise[:, None])
    expected = literal_variances(CONSTANT, grid, laws.adls, chi=0.9995, r=0.75)[-1] * 0.03**2
    assert float(state.y.var()) == pytest.approx(expected, rel=4 * math.sqrt(2 / count))


def test_an_exploding_run_has_a_bounded_ratio() -> None:
    grid = uniform(CONSTANT, 1000)
    assert noise_ratios(CONSTANT, grid, laws.adls, r=1e5, L=9)[-1] == LARGEST
    assert all(r > 0 for r in noise_ratios(CONSTANT, grid, laws.adls, chi=1e-3, r=900.0))
