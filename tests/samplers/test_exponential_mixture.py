"""Exponential integrators against the literal 1,000-level law on a mixture of two modes.

The denoiser is exact and far from linear. Both runs share their start and their Brownian path, so
that the distance of their laws is known to `Apart.noise`.
"""

from __future__ import annotations

import math

import pytest

from tests.benchmarks.mixture_error import LAWS, Apart, N, apart

COARSE, FINE = 8, 16
H = math.log(math.sqrt(N - 1)) / FINE
"""Length of the finer steps in log s: error = c h^p (1 + c' h + …) with c' of order 1."""

every_law = pytest.mark.parametrize(("name", "chi", "r"), LAWS)
both_orders = pytest.mark.parametrize("order", [1, 2])


def slope(coarse: float, fine: float) -> float:
    return math.log(coarse / fine) / math.log(FINE / COARSE)


def noise_of_slope(coarse: Apart, fine: Apart) -> float:
    """Four standard errors of the slope of `weak`."""
    relative = math.hypot(coarse.noise / coarse.weak, fine.noise / fine.weak)
    return 4 * relative / math.log(FINE / COARSE)


@every_law
@both_orders
def test_law_converges_at_least_as_fast_as_declared(
    name: str, chi: float, r: float, order: int
) -> None:
    """Faster is no defect: at the lowest levels the literal run itself has few steps, which long
    steps then are."""
    coarse, fine = (apart(name, chi, r, order, count) for count in (COARSE, FINE))
    assert slope(coarse.weak, fine.weak) > order - H - noise_of_slope(coarse, fine)


@every_law
def test_second_order_with_12_evaluations_is_the_literal_law_within_its_own_error(
    name: str, chi: float, r: float
) -> None:
    """Nearer to the literal law than a tenth of the width, 0.05, of the narrower mode, and at least
    four times as near as the first order."""
    first, second = (apart(name, chi, r, order, 12) for order in (1, 2))
    assert second.weak + 4 * second.noise < 0.1 * 0.05
    assert second.weak < first.weak / 4


@pytest.mark.parametrize(("name", "chi", "r"), [LAWS[2]])
@both_orders
def test_path_converges_as_the_law_does_where_annealing_has_removed_the_noise(
    name: str, chi: float, r: float, order: int
) -> None:
    coarse, fine = (apart(name, chi, r, order, count) for count in (COARSE, FINE))
    assert slope(coarse.strong, fine.strong) > order - H


@pytest.mark.parametrize(("name", "chi", "r"), LAWS[:2])
def test_path_converges_at_order_one_where_there_is_noise(name: str, chi: float, r: float) -> None:
    """The sum of the path over a long step does not say when within it the noise came."""
    coarse, fine = (apart(name, chi, r, 2, count) for count in (COARSE, FINE))
    assert slope(coarse.strong, fine.strong) > 1 - H
    assert fine.strong < apart(name, chi, r, 1, FINE).strong
