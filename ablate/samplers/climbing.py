"""Paths that climb: levels at which noise is added again, walked down with Heun's method.

Climbing from s to a higher level adds noise of variance s_high² - s² to y, which is the forward
process: it keeps the law exactly and forgets some of the error made so far. Two samplers use it:

- Heun with churn climbs a little before every step (Karras et al. 2022, EDM, Algorithm 2);
- Restart climbs a long way, a few times (Xu et al. 2023, Algorithm 1).

Which levels are visited is decided by the path; the kernel is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ablate.samplers.kernel import Denoiser, Info, State
from ablate.samplers.ode import heun

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level

MOST_CHURN = math.sqrt(2) - 1
"""EDM's bound on gamma: a climb never adds more variance than the state has, s_hat² <= 2 s²."""

RHO = 7.0
"""Spacing of the levels of a restart, even in s^(1/rho), as in the paper of Restart."""


def climbing_heun(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, noise: float = 1.0
) -> tuple[State, Info]:
    """Up, s_next > s: y <- y + noise √(s_next² - s²) z, with no evaluation. Down: Heun's step."""
    if level.s_next <= level.s:
        return heun(denoiser, state, level, z)
    added = noise * math.sqrt(level.s_next**2 - level.s**2)
    moved = state.y + (level.shift_next - level.shift)
    return state._replace(y=moved.add(z, alpha=added)), Info()


def heun_churn(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, churn_noise: float, **path: float
) -> tuple[State, Info]:
    """A step of EDM's Algorithm 2: its lines 5 and 6 on the way up, 7 to 11 on the way down."""
    return climbing_heun(denoiser, state, level, z, noise=churn_noise)


def churned(
    grid: Sequence[float], *, churn: float, churn_low: float, churn_high: float, **step: float
) -> list[float]:
    """The grid with a climb to s (1 + gamma) before each step from churn_low <= s <= churn_high.

    gamma = min(churn/steps, √2 - 1). No climb ends above the first level: the network may not know
    what is above it, so there is none before the first step.
    """
    gamma = min(churn / (len(grid) - 1), MOST_CHURN)
    path: list[float] = []
    for s in grid:
        path.append(s)
        top = min(s * (1 + gamma), grid[0])
        if churn_low <= s <= churn_high and top > s:
            path.append(top)
    return path


def restart(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, **path: float
) -> tuple[State, Info]:
    """A step of Restart: forward on the way up, Heun's on the way down."""
    return climbing_heun(denoiser, state, level, z)


def restarted(
    grid: Sequence[float],
    *,
    restart_low: float,
    restart_high: float,
    restart_times: int,
    restart_share: float,
) -> list[float]:
    """The grid with restart_times detours at its level nearest to restart_low, each up to
    restart_high and down again.

    restart_high is at most the first level. The way down has its own levels, even in s^(1/7).
    """
    count = _steps_down(len(grid), restart_share)
    if not count:
        return list(grid)
    high = min(restart_high, grid[0])
    turn = min(
        (i for i, s in enumerate(grid) if 0 < s < high),
        key=lambda i: abs(math.log(grid[i] / restart_low)),
    )
    ends = high ** (1 / RHO), grid[turn] ** (1 / RHO)
    down = [(ends[0] + (ends[1] - ends[0]) * i / count) ** RHO for i in range(count)]
    detour = [*down, grid[turn]]
    return [*grid[: turn + 1], *(detour * restart_times), *grid[turn + 1 :]]


def steps_of_restarts(
    N: int, *, restart_times: int, restart_share: float, **interval: float
) -> int:
    """Steps down that restarts add to a grid of N levels."""
    return restart_times * _steps_down(N, restart_share)


def _steps_down(N: int, share: float) -> int:
    """Steps of one way down: a share of the N - 2 steps above s = 0. On few levels it rounds to
    none, and there are no restarts."""
    return round(share * (N - 2))


def check_restarts(
    s_max: float, s_min: float, *, restart_low: float, restart_high: float, **other: float
) -> None:
    """Refuse an interval that is empty or has no level of the grid below its top."""
    if not restart_low < restart_high:
        raise ValueError(f"restart_low = {restart_low} is not below restart_high = {restart_high}")
    if not s_min < restart_high:
        raise ValueError(f"restart_high = {restart_high} is not above the lowest level {s_min:.4g}")
