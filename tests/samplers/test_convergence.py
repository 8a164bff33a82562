"""Samplers with the exact denoiser, against the law that they should reach.

The error has two parts: that of the sample, bounded by `wasserstein_limit`, and that of the
discretisation, measured by running a sampler on a grid and on its refinement with the same Brownian
path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from ablate.diffusion.grids import Level, geometric, plan, uniform
from ablate.diffusion.oracles import LogNormalMixture
from ablate.diffusion.processes import GBM, VEGBM, Process, level
from ablate.samplers.kernel import Denoiser, Info, Kernel, State, hyvarinen
from ablate.samplers.registry import SAMPLERS, Sampler
from tests.samplers.runs import drive_sampler, path_plan
from tests.support.beds import (
    generator,
    normal,
    one_mode,
    two_modes,
    wasserstein,
    wasserstein_limit,
)

COUNT, LEVELS, S_MIN = 10_000, 100, 0.005
BEDS = {"log-normal": one_mode(), "mixture": two_modes()}
every_bed = pytest.mark.parametrize("oracle", BEDS.values(), ids=BEDS.keys())


def arrive(
    sampler: Sampler,
    oracle: LogNormalMixture,
    levels: list[Level],
    noise: Callable[[int], Tensor],
) -> Tensor:
    """log|x| at the end of a run from the exact marginal at the first level."""
    y = oracle.draw(COUNT, generator(1)).log()
    start = y + levels[0].shift + levels[0].s * normal((COUNT, 1), 2)
    return drive_sampler(sampler, oracle.denoised, start, levels, noise).x.abs().log()


class Recovery(NamedTuple):
    """How near a sampler comes to the law of y_0, in W1."""

    error: float  # on the fine grid
    gap: float  # between the grid and its refinement
    limit: float  # of as many exact draws

    @property
    def holds(self) -> bool:
        """The samplers are of weak order 1 at least, so halving the steps again and again moves
        the fine result by gap/2 + gap/4 + … = gap in all. NaN does not hold."""
        return self.gap <= self.limit and self.error <= self.limit + self.gap


def recovery(sampler: Sampler, oracle: LogNormalMixture, process: Process) -> Recovery:
    fine = geometric(process, 2 * LEVELS, S_MIN)
    coarse = torch.cat([fine[:-1:2], fine[-1:]])
    z = normal((2 * LEVELS - 1, COUNT, 1), 3)
    root = (fine[:-1] ** 2 - fine[1:] ** 2).sqrt()

    def summed(k: int) -> Tensor:
        """The increment over two fine steps; the last, from s_min to 0, is in both grids."""
        if k == LEVELS - 1:
            return z[2 * k]
        a, b = root[2 * k], root[2 * k + 1]
        return (a * z[2 * k] + b * z[2 * k + 1]) / (a**2 + b**2).sqrt()

    y = arrive(sampler, oracle, plan(process, fine), lambda j: z[j])
    y_coarse = arrive(sampler, oracle, plan(process, coarse), summed)
    gap = float((y.flatten().sort().values - y_coarse.flatten().sort().values).abs().mean())
    return Recovery(wasserstein(oracle, y), gap, wasserstein_limit(oracle, COUNT))


# --- the reverse SDEs ---


@every_bed
@pytest.mark.parametrize("name", ["dale-langevin", "sign-agnostic"])
def test_reverse_sde_recovers_the_law(name: str, oracle: LogNormalMixture) -> None:
    found = recovery(SAMPLERS[name], oracle, GBM(0.8))
    assert found.holds, found


def without_divergence(
    denoiser: Denoiser, state: State, level: Level, z: Tensor
) -> tuple[State, Info]:
    """The reverse drift as code for additive noise forms it, drift - g² stein: no + 2 sigma² x."""
    pull = level.variance * hyvarinen(denoiser, state.y, level)
    factor = 1 - level.drift + pull + level.kappa * math.sqrt(level.variance) * z
    return State(state.y + factor.abs().log(), state.sign * factor.sign()), Info()


def without_divergence_in_log(
    denoiser: Denoiser, state: State, level: Level, z: Tensor
) -> tuple[State, Info]:
    """The same mistake made before Itô's lemma takes it to y = log x."""
    move = level.variance * hyvarinen(denoiser, state.y, level) - level.drift - level.variance / 2
    return state._replace(y=state.y + move + level.kappa * math.sqrt(level.variance) * z), Info()


@every_bed
@pytest.mark.parametrize("kernel", [without_divergence, without_divergence_in_log])
def test_reverse_sde_without_the_divergence_term_fails(
    kernel: Kernel, oracle: LogNormalMixture
) -> None:
    found = recovery(Sampler("wrong", "", kernel), oracle, GBM(0.8))
    assert not found.holds
    assert found.gap <= found.limit  # it converges, to the wrong law


@every_bed
def test_algorithm_2_as_printed_fails(oracle: LogNormalMixture) -> None:
    assert not recovery(SAMPLERS["asams-as-printed"], oracle, GBM(0.8)).holds


# --- other processes: VE-GBM, and drifts that shift y ---

PROCESSES = {
    "gbm-shifted": GBM(0.8, mu=0.9),
    "vegbm": VEGBM(0.1, 1.2),
    "vegbm-shifted": VEGBM(0.1, 1.2, mu=lambda t: 1 - 2 * t**2),
}


@pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())
@pytest.mark.parametrize(
    "name", [name for name, sampler in SAMPLERS.items() if sampler.order > 0 and not sampler.path]
)
def test_every_process_recovers_the_law(name: str, process: Process) -> None:
    found = recovery(SAMPLERS[name], two_modes(), process)
    assert found.holds, found


@pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())
@pytest.mark.parametrize("name", [name for name, sampler in SAMPLERS.items() if sampler.path])
def test_climbing_recovers_the_law(name: str, process: Process) -> None:
    """On a grid and on its refinement, each with noise of its own. Heun's error at 100 levels,
    some h² = 0.003 of the modes' spread, is far below what as many exact draws differ by."""
    oracle = two_modes()
    for seed, N in enumerate((LEVELS, 2 * LEVELS)):
        levels = path_plan(SAMPLERS[name], process, geometric(process, N, S_MIN))
        z = normal((len(levels), COUNT, 1), 20 + seed)
        y = arrive(SAMPLERS[name], oracle, levels, z.__getitem__)
        assert wasserstein(oracle, y) < wasserstein_limit(oracle, COUNT)


def test_a_forgotten_shift_would_show() -> None:
    """The tests above would notice: with the shift at the start only, the same run fails."""
    oracle, process = two_modes(), GBM(0.8, mu=0.9)
    levels = plan(process, geometric(process, 2 * LEVELS, S_MIN))
    blind = [levels[0], *(step._replace(shift=0.0, shift_next=0.0) for step in levels[1:])]
    y = arrive(SAMPLERS["adls"], oracle, blind, lambda j: normal((COUNT, 1), 10 + j))
    assert wasserstein(oracle, y) > 2 * wasserstein_limit(oracle, COUNT)


# --- the same, without chance: on a log-normal every step in y is affine ---


def final_variance(name: str, levels: list[Level]) -> float:
    """Var y at the end from the exact marginal at the start, by y' = a y + b + c z step by step."""
    oracle, kernel = one_mode(), SAMPLERS[name].step
    variance = float(oracle.variances[0, 0]) + levels[0].s ** 2
    y, z = torch.tensor([[0.0], [1.0], [0.0]]).double(), torch.tensor([[0.0], [0.0], [1.0]])
    for step in levels:
        base, one, noise = kernel(oracle.denoised, State.of_log(y), step, z.double())[0].y.tolist()
        variance = (one[0] - base[0]) ** 2 * variance + (noise[0] - base[0]) ** 2
    return variance


@pytest.mark.parametrize(("name", "chi"), [("adls", 1.0), ("adls-consistent", 0.995)])
def test_variance_is_recovered_to_first_order(name: str, chi: float) -> None:
    """With ratio exp(-h) between the w = s², a step of ADLS leaves (h w)²/(v + w) too much, of
    which (v/(v + w))² survives to the end: over all steps, up to W = s_max²,
    h ∫ w v²/(v + w)³ dw = v (h/2) (W/(v + W))². The consistent one needs no chi = 1 for that."""
    process, v, W = GBM(0.8), 0.1**2, 0.8**2

    def excess(N: int) -> float:
        return final_variance(name, plan(process, geometric(process, N, 1e-3), chi=chi)) / v - 1

    coarse, fine = excess(1000), excess(1998)  # 998 and 1,996 ratios: h halves
    h = 2 * math.log(0.8 / 1e-3) / 1996  # 0.0067, and the next order is h times a number near 1
    assert math.log2(coarse / fine) == pytest.approx(1, abs=3 * h)
    if chi == 1:
        assert fine == pytest.approx(h / 2 * (W / (v + W)) ** 2, rel=3 * h)


def test_annealed_variance_is_not_recovered() -> None:
    """ADLS at chi < 1 ends with v²/(v + W) + ∫ kappa² (v/(v + w))² dw, far below v, whatever the
    grid: full drift, and of each increment of noise only kappa² = chi^(2000 (1 - w/W))."""
    process, v, W, chi = GBM(0.8), 0.1**2, 0.8**2, 0.995
    noise = quad(lambda w: chi ** (2000 * (1 - w / W)) * (v / (v + w)) ** 2, 0, W, points=[v])[0]
    expected = v**2 / (v + W) + noise
    assert expected < 0.1 * v
    levels = plan(process, geometric(process, 1998, 1e-3), chi=chi)
    # first order in h = 0.0067, as above
    assert final_variance("adls", levels) == pytest.approx(expected, rel=0.02)


# --- what the design claims ---


@cache
def annealed_error(name: str, chi: float, r: float = 1.0) -> float:
    oracle, process, noise = two_modes(), GBM(0.8), generator(6)
    levels = plan(process, uniform(process, 1000), chi=chi, r=r)
    return wasserstein(
        oracle,
        arrive(
            SAMPLERS[name],
            oracle,
            levels,
            lambda j: torch.randn((COUNT, 1), generator=noise, dtype=torch.float64),
        ),
    )


@pytest.mark.parametrize("name", ["adls", "asams"])
def test_kappa_consistent_beats_annealed(name: str) -> None:
    """N = 1,000 uniform levels, chi = 0.995, r = 1: the consistent one is as good as exact draws,
    the paper's is off by many times what they ever are."""
    limit = wasserstein_limit(two_modes(), COUNT)
    assert annealed_error(f"{name}-consistent", chi=0.995) < limit
    assert annealed_error(name, chi=0.995) > 5 * limit


def test_a_smaller_step_makes_up_for_chi() -> None:
    """ADLS agrees with the marginals at r = 1/(2 - kappa²): at chi = 0.995 the levels that shape
    these narrow modes have kappa near 0, so r = 1/2 is exact and 0.6, the paper's, half-way."""
    limit = wasserstein_limit(two_modes(), COUNT)
    half, tuned, whole = (annealed_error("adls", chi=0.995, r=r) for r in (0.5, 0.6, 1.0))
    assert half < limit < tuned < whole / 2


def test_geometric_levels_beat_uniform_ones() -> None:
    """50 levels, chi = 1: the uniform ones end at s_1 = 0.8/√50 = 0.11, above the modes' spread."""
    oracle, process = two_modes(), GBM(0.8)
    z = normal((49, COUNT, 1), 7)
    by_grid = {
        name: wasserstein(
            oracle, arrive(SAMPLERS["adls"], oracle, plan(process, grid), lambda j: z[j])
        )
        for name, grid in (
            ("uniform", uniform(process, 50)),
            ("geometric", geometric(process, 50, 0.01)),
        )
    }
    assert float(level(process, torch.tensor(1 / 50))) > float(oracle.variances.max().sqrt())
    # both errors carry the same noise, of standard deviation below limit/4 each
    assert by_grid["geometric"] + wasserstein_limit(oracle, COUNT) < by_grid["uniform"]
