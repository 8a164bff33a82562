"""Grids of noise levels, and the plan of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy.integrate import quad

from ablate.diffusion.grids import Level, geometric, karras, plan, uniform
from ablate.diffusion.processes import GBM, VEGBM, Drift, Process, level, shift

S_MIN = 0.01
Grid = Callable[[Process, int], torch.Tensor]
GRIDS: dict[str, Grid] = {
    "uniform": uniform,
    "geometric": lambda process, N: geometric(process, N, S_MIN),
    "karras": lambda process, N: karras(process, N, S_MIN),
}
PROCESSES: dict[str, GBM | VEGBM] = {"gbm": GBM(0.8), "vegbm": VEGBM(0.1, 1.2)}
every_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())


def kappas(levels: list[Level]) -> torch.Tensor:
    return torch.tensor([step.kappa for step in levels], dtype=torch.float64)


def ramp(t: torch.Tensor) -> torch.Tensor:
    return 0.2 + t**2


@every_grid
@every_process
def test_a_grid_falls_to_zero(grid: Grid, process: Process) -> None:
    s = grid(process, 12)
    assert s.dtype == torch.float64
    assert len(s) == 12
    assert s[-1] == 0
    assert bool((s.diff() < 0).all())


@every_process
def test_uniform_is_k_over_n(process: Process) -> None:
    t = process.time(uniform(process, 8))
    torch.testing.assert_close(t, torch.arange(7, -1, -1).double() / 8, rtol=1e-13, atol=0)


@every_process
@pytest.mark.parametrize("name", ["geometric", "karras"])
def test_ends_of_spaced_grids(name: str, process: Process) -> None:
    s = GRIDS[name](process, 20)
    s_max = float(level(process, torch.ones(()).double()))
    assert s[[0, -2]].tolist() == pytest.approx([s_max, S_MIN], rel=1e-13)


@every_process
def test_geometric_has_one_ratio(process: Process) -> None:
    s = geometric(process, 20, S_MIN)[:-1]
    ratio = (S_MIN / s[0]) ** (1 / 18)
    torch.testing.assert_close(s[1:] / s[:-1], ratio.expand(18), rtol=1e-12, atol=0)


@every_process
@pytest.mark.parametrize("cap", [0.03, 0.05, 0.2])
def test_a_capped_grid_is_even_in_variance_then_geometric(process: Process, cap: float) -> None:
    s = geometric(process, 60, S_MIN, cap)
    assert len(s) == 60
    s_max = float(level(process, torch.ones(()).double()))
    assert s[[0, -2, -1]].tolist() == pytest.approx([s_max, S_MIN, 0.0], rel=1e-13)
    removed = -(s[:-1] ** 2).diff()
    assert bool((removed <= cap * (1 + 1e-9)).all())
    even = int((removed > cap * (1 - 1e-9)).sum())
    torch.testing.assert_close(
        removed[:even], torch.full((even,), cap, dtype=torch.float64), rtol=1e-9, atol=0
    )
    ratios = s[even + 1 : -1] / s[even:-2]
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios), rtol=1e-9, atol=0)
    # and no fewer even steps would do: the progression one level earlier removes too much
    if even:
        before = s[even - 1] ** 2
        ratio = (S_MIN**2 / before) ** (1 / (58 - even + 1))
        assert before * (1 - ratio) > cap


@every_process
def test_a_wide_cap_changes_nothing(process: Process) -> None:
    assert torch.equal(geometric(process, 20, S_MIN, 10.0), geometric(process, 20, S_MIN))


def test_a_cap_holds_for_the_last_step_too() -> None:
    with pytest.raises(ValueError, match="below what the last step removes"):
        geometric(GBM(0.8), 40, 0.3, 0.05)


def test_a_cap_that_cannot_be_kept_is_refused() -> None:
    """0.64 of variance in steps of 0.01: 64 of them, and the levels at both ends."""
    with pytest.raises(ValueError, match=r"cap = 0.01: 38 steps .* 66 levels would"):
        geometric(GBM(0.8), 40, S_MIN, 0.01)
    assert len(geometric(GBM(0.8), 66, S_MIN, 0.01)) == 66


@pytest.mark.parametrize("rho", [1.0, 3.0, 7.0])
def test_karras_is_even_in_the_root(rho: float) -> None:
    gaps = (karras(GBM(0.8), 20, S_MIN, rho)[:-1] ** (1 / rho)).diff()
    torch.testing.assert_close(gaps, gaps.mean().expand(18), rtol=1e-11, atol=0)


@pytest.mark.parametrize("chi", [0.995, 0.9995, 1.0])
def test_kappa_is_the_papers_loop(chi: float) -> None:
    """kappa <- chi kappa after each level. 1,000 rounded products differ from a power by some
    1,000 half-ulps, 1e-13."""
    kappa, loop = 1.0, []
    for _ in range(999, 0, -1):
        loop.append(kappa)
        kappa *= chi
    planned = kappas(plan(GBM(0.8), uniform(GBM(0.8), 1000), chi=chi))
    torch.testing.assert_close(planned, torch.tensor(loop, dtype=torch.float64), rtol=1e-12, atol=0)


@every_process
def test_chi_means_the_same_on_any_grid(process: Process) -> None:
    """kappa depends on the time walked since the start, not on the number of levels."""
    chi = 0.995
    fine, coarse = (kappas(plan(process, uniform(process, N), chi=chi)) for N in (1000, 50))
    torch.testing.assert_close(coarse, fine[::20][:49], rtol=1e-11, atol=0)
    grid = geometric(process, 30, S_MIN)
    expected = chi ** (1000 * (1 - process.time(grid[:-1])))
    torch.testing.assert_close(kappas(plan(process, grid, chi=chi)), expected, rtol=1e-11, atol=0)


@every_grid
@every_process
@pytest.mark.parametrize(("L", "r"), [(1, 1.0), (3, 1.0), (6, 0.57)])
def test_variance_removed_is_r_of_the_whole(grid: Grid, process: Process, L: int, r: float) -> None:
    s = grid(process, 15)
    levels = plan(process, s, L=L, r=r)
    total = math.fsum(step.variance for step in levels)
    assert total == pytest.approx(r * float(s[0]) ** 2, rel=1e-13)


def test_r_is_l_delta_n() -> None:
    """On the paper's grid, one step has delta sigma² and delta mu."""
    N, L, delta, sigma, mu = 1000, 3, 2.11e-4, 0.8, 0.5
    process = GBM(sigma, mu)
    levels = plan(process, uniform(process, N), r=L * delta * N, L=L)
    for step in levels[:: 111 * L]:
        # differences of s² and of m around 1 round to 1e-16, against steps of 1e-3: 1e-12 at worst
        assert step.variance == pytest.approx(delta * sigma**2, rel=1e-11)
        assert step.drift == pytest.approx(delta * mu, rel=1e-11)


@every_grid
@pytest.mark.parametrize(("L", "n"), [(1, 0), (3, 0), (1, 4), (2, 5)])
def test_plan_has_l_steps_a_level_and_n_at_the_end(grid: Grid, L: int, n: int) -> None:
    N = 9
    s = grid(GBM(0.8), N)
    levels = plan(GBM(0.8), s, chi=0.99, L=L, n=n)
    assert len(levels) == L * (N - 1) + n
    walked = [step.s for step in levels]
    lowest = float(s[-2])
    assert walked == [float(value) for value in s[:-1] for _ in range(L)] + [lowest] * n
    assert all(step.kappa > 0 for step in levels[: L * (N - 1)])
    # noise-free, at the lowest level that has noise, with that level's step
    before = levels[L * (N - 1) - 1]
    assert levels[L * (N - 1) :] == [before._replace(kappa=0.0)] * n


@pytest.mark.parametrize("mu", [None, 0.5, ramp], ids=["default", "constant", "callable"])
@every_process
def test_drift_and_shift_of_a_plan(process: GBM | VEGBM, mu: Drift) -> None:
    process = replace(process, mu=mu)
    grid = uniform(process, 10)
    levels = plan(process, grid)
    for k, step in zip(range(9, 0, -1), levels, strict=True):
        times = torch.tensor([k / 10, (k - 1) / 10], dtype=torch.float64)
        m, m_next = shift(process, times).tolist()
        assert (step.shift, step.shift_next) == pytest.approx((m, m_next), abs=1e-13)
        expected = _integral_of_mu(process, float(times[1]), float(times[0]))
        assert step.drift == pytest.approx(expected, abs=1e-12)


def _integral_of_mu(process: Process, start: float, end: float) -> float:
    def rate(u: float) -> float:
        t = torch.tensor(u, dtype=torch.float64)
        if process.mu is None:
            return float(process.volatility(t)) ** 2 / 2
        return float(process.mu(t)) if callable(process.mu) else process.mu

    return float(quad(rate, start, end, epsabs=1e-14, epsrel=1e-13)[0])
