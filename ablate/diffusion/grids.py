"""Noise-level grids, and the plan of levels that a sampler walks down.

A grid is a float64 tensor of N noise levels s_{N-1} > … > s_1 > s_0 = 0.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ablate.diffusion.capped import check_cap, even_steps
from ablate.diffusion.processes import CHI_STEPS, Process, level, shift

Step = float | Literal["law"]
"""The relative step r = L delta N, or "law" for 1/(2 - kappa²) level by level."""


class Linear(NamedTuple):
    """A step that is exact for a denoiser D that changes at the rate it had over the last step.

    y <- D + keep (y - D) + slope (D - D of the step before) + bias + noise z
    """

    keep: float
    slope: float
    bias: float
    noise: float


class Level(NamedTuple):
    """One step of a sampler, in plain floats: from noise level s towards s_next."""

    s: float
    s_next: float
    shift: float  # m(t) at s: networks and oracles describe the process without it
    shift_next: float
    drift: float  # delta mu
    variance: float  # delta sigma²
    kappa: float
    linear: Linear | None = None  # of an exponential integrator


def uniform(process: Process, N: int) -> Tensor:
    """The paper's grid, t_k = k/N, which starts at k = N - 1."""
    return level(process, torch.arange(N - 1, -1, -1, dtype=torch.float64) / N)


def geometric(process: Process, N: int, s_min: float, cap: float | None = None) -> Tensor:
    """N - 1 levels in geometric progression from s(1) to s_min, then 0.

    They are even in log s, which is even in the log-SNR: the signal has no factor here, so the SNR
    is 1/s².

    cap: the most variance that a step may remove. At the top, where the progression would remove
    more, levels are evenly spaced in s² by `cap`; the others are geometric.
    """
    s_max = float(level(process, torch.ones((), dtype=torch.float64)))
    if cap is not None:
        check_cap(cap, s_min)
    straight = cap is None or s_min >= s_max
    even = 0 if straight else even_steps(s_max**2, s_min**2, N - 2, cap or 0)
    top = (s_max**2 - torch.arange(even, dtype=torch.float64) * (cap or 0)).sqrt()
    first = math.sqrt(s_max**2 - even * (cap or 0))
    return _ending_at_zero(torch.cat([top, _geometric(first, s_min, N - 1 - even)]))


def karras(process: Process, N: int, s_min: float, rho: float = 7.0) -> Tensor:
    """N - 1 levels evenly spaced in s^(1/rho) from s(1) to s_min, then 0 (Karras et al., Eq. 5)."""
    s_max = float(level(process, torch.ones((), dtype=torch.float64)))
    return _ending_at_zero(_karras(s_max, s_min, N - 1, rho))


def uniform_in_time(process: Process, N: int, s_min: float) -> Tensor:
    """N - 1 levels evenly spaced in time from t = 1 to the t of s_min, then 0.

    Unlike those of `uniform`, whose lowest level is s(1/N), a few of them reach down to s_min.
    """
    last = float(process.time(torch.tensor(s_min, dtype=torch.float64)))
    s = level(process, torch.linspace(1, last, N - 1, dtype=torch.float64))
    s[-1] = s_min  # exactly: the way to time and back rounds
    return _ending_at_zero(s)


def _geometric(high: float, low: float, count: int) -> Tensor:
    return torch.logspace(0, 1, count, low / high, dtype=torch.float64) * high


def _karras(high: float, low: float, count: int, rho: float = 7.0) -> Tensor:
    ends = high ** (1 / rho), low ** (1 / rho)
    return torch.linspace(*ends, count, dtype=torch.float64) ** rho


def within_literal(process: Process, kind: str, N: int, count: int, last: int = 1) -> Tensor:
    """`count` levels from s_{N-1} to s_last of the paper's N levels, spaced as a grid of a kind."""
    ends = 1 - 1 / N, last / N
    if kind == "uniform":
        return level(process, torch.linspace(*ends, count, dtype=torch.float64))
    high, low = (level(process, end) for end in ends)
    return {"geometric": _geometric, "karras": _karras}[kind](high, low, count)


def _ending_at_zero(s: Tensor) -> Tensor:
    return torch.cat([s, torch.zeros(1, dtype=s.dtype)])


def annealing(times: Tensor, chi: float) -> Tensor:
    """kappa at each of the times but the last, which is 0: chi^(1000 (t_{N-1} - t))."""
    return chi ** (CHI_STEPS * (times[0] - times[:-1]))


def relative_steps(r: Step, kappas: Tensor) -> Tensor:
    """The relative step at each level: r, or by the law 1/(2 - kappa²).

    ADLS scales drift and noise by the same r. It has the marginals of the forward process if
    r = (1 + kappa² r)/2.
    """
    return 1 / (2 - kappas**2) if r == "law" else torch.full_like(kappas, float(r))


def plan(
    process: Process, grid: Tensor, *, chi: float = 1.0, r: Step = 1.0, L: int = 1, n: int = 0
) -> list[Level]:
    """All steps of a run: L at each level, then n without noise at the lowest.

    Each step removes delta sigma² = r (s_k² - s_{k-1}²)/L, where r = L delta N is the relative
    step (r = 1 covers the whole reverse time), and kappa = chi^(1000 (t_{N-1} - t)).
    A step to a higher level of a path that climbs removes a negative variance.
    """
    times = process.time(grid)
    kappas = annealing(times, chi)
    steps = relative_steps(r, kappas) / L
    shifts = shift(process, times)
    removed = grid[:-1] ** 2 - grid[1:] ** 2
    drifts = shifts[:-1] - shifts[1:] + removed / 2  # ∫ mu = ∫ (mu - sigma²/2) + ∫ sigma²/2
    rows = torch.stack(
        [grid[:-1], grid[1:], shifts[:-1], shifts[1:], drifts * steps, removed * steps, kappas],
        dim=1,
    )
    levels = [Level(*row) for row in rows.tolist()]
    terminal = levels[-1]._replace(kappa=0.0)
    return [step for step in levels for _ in range(L)] + [terminal] * n
