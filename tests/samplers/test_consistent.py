"""The kappa-consistent pair, from the reverse SDE (kappa = 1) to the probability flow (0)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import Level
from ablate.samplers.adls import adls, adls_consistent
from ablate.samplers.asams import asams, asams_consistent
from ablate.samplers.kernel import Kernel
from ablate.samplers.ode import euler
from tests.samplers.runs import ORACLE, STEP, state
from tests.support.beds import normal


def small_step(variance: float, kappa: float) -> Level:
    """From s = 0.5 down by `variance`, with the paper's drift."""
    s = 0.5
    return Level(s, math.sqrt(s**2 - variance), 0.0, 0.0, variance / 2, variance, kappa)


def assert_second_order(gap: Callable[[float], float]) -> None:
    """gap(h) = c h² (1 + O(h)) with the O(h) under 20 h, since (h/s²) is the scale of a step: with
    h = 1e-3 the slope is 2 within log2(1 + 20 h) = 0.03; and c is not zero."""
    coarse, fine = gap(1e-3), gap(5e-4)
    assert fine > 1e-12
    assert math.log2(coarse / fine) == pytest.approx(2, abs=0.05)


def log_drift(kernel: Kernel, level: Level) -> Tensor:
    """E_z of the change of y in one step, by Gauss-Hermite quadrature (20 nodes, |z| < 7.7)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    moves = [
        w * (kernel(ORACLE.denoised, state(), level, torch.full((6, 3), z).double())[0].y)
        for z, w in zip(nodes, weights / weights.sum(), strict=True)
    ]
    return torch.stack(moves).sum(0) - state().y


def test_consistent_at_kappa_one_is_adls() -> None:
    step, z = STEP._replace(kappa=1.0), normal((6, 3), 14)
    ours, theirs = (k(ORACLE.denoised, state(), step, z)[0] for k in (adls_consistent, adls))
    torch.testing.assert_close(ours.y, theirs.y, rtol=1e-14, atol=1e-14)
    ours, theirs = (k(ORACLE.denoised, state(), step, z)[0] for k in (asams_consistent, asams))
    torch.testing.assert_close(ours.x, theirs.x, rtol=1e-13, atol=1e-14)


def test_consistent_at_kappa_zero_is_the_probability_flow() -> None:
    """dy/d(s²) = -½ log_score: one step agrees with the ODE's Euler step to second order."""
    z = normal((6, 3), 15)

    def gap(h: float) -> float:
        step = small_step(h, kappa=0.0)
        ours, flow = (k(ORACLE.denoised, state(), step, z)[0].y for k in (adls_consistent, euler))
        return float((ours - flow).abs().max())

    assert_second_order(gap)
    moved = adls_consistent(ORACLE.denoised, state(), small_step(1e-3, 0.0), z)[0].y - state().y
    expected = 1e-3 / 2 * ORACLE.log_score(state().y, 0.5)
    torch.testing.assert_close(moved, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 0.8, 1.0])
def test_consistent_pair_has_one_log_drift(kappa: float) -> None:
    def gap(h: float) -> float:
        pair = (log_drift(k, small_step(h, kappa)) for k in (adls_consistent, asams_consistent))
        return float((next(pair) - next(pair)).abs().max())

    assert_second_order(gap)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
def test_annealed_asams_drifts_from_adls(kappa: float) -> None:
    """As printed its log-drift exceeds that of ADLS by delta sigma² (1 - kappa²)/2."""

    def gap(h: float) -> float:
        level = small_step(h, kappa)
        excess = log_drift(asams, level) - log_drift(adls, level)
        return float((excess - h * (1 - kappa**2) / 2).abs().max())

    assert_second_order(gap)
