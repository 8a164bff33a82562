"""Heun with churn and Restart, against their algorithms written out."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import geometric
from ablate.diffusion.processes import GBM
from ablate.samplers.climbing import restarted
from ablate.samplers.registry import SAMPLERS
from tests.samplers.runs import drive_sampler, path_plan
from tests.support.beds import normal, two_modes

PROCESS, GRID = GBM(0.8), geometric(GBM(0.8), 8, 0.05)
START = normal((20, 1), 1)


def heun_by_hand(y: Tensor, s: float, s_next: float) -> Tensor:
    """EDM's Algorithm 1, lines 4 to 8."""
    slope = (y - two_modes().denoised(y, s)) / s
    ahead = y + (s_next - s) * slope
    if s_next == 0:
        return ahead
    return y + (s_next - s) * (
        slope / 2 + (ahead - two_modes().denoised(ahead, s_next)) / (2 * s_next)
    )


def drawn(name: str, own: dict[str, Any]) -> tuple[Tensor, list[Tensor]]:
    """The end of a run, and z of its climbs in order."""
    sampler = SAMPLERS[name]
    levels = path_plan(sampler, PROCESS, GRID, own=own)
    z = [normal((20, 1), 100 + j) for j in range(len(levels))]
    x = drive_sampler(sampler, two_modes().denoised, START, levels, lambda j: z[j], own=own).x
    return x.log(), [z[j] for j, level in enumerate(levels) if level.s_next > level.s]


def test_heun_churn_is_algorithm_2_of_edm() -> None:
    """No climb before the first step, which would leave the levels that the network knows."""
    own = {"churn": 2.0, "churn_low": 0.1, "churn_high": 0.6, "churn_noise": 1.01}
    y, climbs = drawn("heun-churn", own)
    s, expected, used = GRID.tolist(), START, 0
    for here, there in pairwise(s):
        gamma = min(2.0 / 7, math.sqrt(2) - 1) if 0.1 <= here <= 0.6 else 0.0
        top = min(here * (1 + gamma), s[0])
        if gamma:
            noise = 1.01 * math.sqrt(top**2 - here**2)
            expected, used = expected + noise * climbs[used], used + 1
        expected = heun_by_hand(expected, top, there)
    assert used == len(climbs) > 2
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "own"), [("heun-churn", {"churn": 0}), ("restart", {"restart_times": 0})]
)
def test_without_climbs_it_is_heun_s_method(name: str, own: dict[str, Any]) -> None:
    assert torch.equal(drawn(name, own)[0], drawn("pf-heun", {})[0])


def test_churn_is_bounded() -> None:
    """gamma <= √2 - 1, and no climb above the first level."""
    path = SAMPLERS["heun-churn"].visited(GRID, {"churn": 200}).tolist()
    climbs = [(a, b) for a, b in pairwise(path) if b > a]
    assert max(path) == path[0]
    assert climbs[-1][1] / climbs[-1][0] == pytest.approx(math.sqrt(2), rel=1e-12)
    assert len(climbs) == 6


def test_restart_is_algorithm_1() -> None:
    """At the level nearest to 0.15, twice: up to 0.4, down in 3 = round(0.5·6) steps."""
    own = {"restart_low": 0.15, "restart_high": 0.4, "restart_times": 2, "restart_share": 0.5}
    y, climbs = drawn("restart", own)
    s, expected, used = GRID.tolist(), START, 0
    low = min(s[:-1], key=lambda level: abs(math.log(level / 0.15)))
    ends = 0.4 ** (1 / 7), low ** (1 / 7)
    inner = [*((ends[0] + (ends[1] - ends[0]) * i / 3) ** 7 for i in range(3)), low]
    for here, there in pairwise(s):
        if here == low:
            for _ in range(2):
                noise = math.sqrt(0.4**2 - low**2)
                expected, used = expected + noise * climbs[used], used + 1
                for a, b in pairwise(inner):
                    expected = heun_by_hand(expected, a, b)
        expected = heun_by_hand(expected, here, there)
    assert used == len(climbs) == 2
    torch.testing.assert_close(y, expected, rtol=1e-11, atol=1e-11)


def test_a_restart_stays_within_the_grid() -> None:
    path = SAMPLERS["restart"].visited(GRID, {"restart_high": 50.0, "restart_low": 0.001})
    assert float(path.max()) == float(GRID[0])
    assert float(path[path > 0].min()) == float(GRID[-2])


def test_few_levels_have_no_restarts() -> None:
    """A share of so few steps rounds to none: Heun's method is left, at its cost."""
    own: dict[str, Any] = {"restart_low": 0.1, "restart_high": 0.3}
    own |= {"restart_times": 2, "restart_share": 0.25}
    assert restarted([0.8, 0.03, 0.0], **own) == [0.8, 0.03, 0.0]
    assert SAMPLERS["restart"].nfe(3, chosen=own) == SAMPLERS["pf-heun"].nfe(3)
