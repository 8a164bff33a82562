"""The Dale-Langevin step against its formula written out, under its three names."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.samplers.adls import adls, dale_step
from ablate.samplers.kernel import State
from tests.samplers.runs import ORACLE, STEP, state
from tests.support.beds import generator, normal


@pytest.mark.parametrize("drift", [0.5 * STEP.variance, 0.02, -0.1])
def test_adls_by_hand(drift: float) -> None:
    step, start, z = STEP._replace(drift=drift), state(), normal((6, 3), 6)
    hyvarinen = ORACLE.hyvarinen(start.x.abs(), step.s)
    v = step.variance
    expected = start.x * torch.exp(
        -(drift - 1.5 * v) + v * hyvarinen + step.kappa * math.sqrt(v) * z
    )
    torch.testing.assert_close(adls(ORACLE.denoised, start, step, z)[0].x, expected)


def test_exponentiated_gradient_descent() -> None:
    """x exp(-eta grad ∘ sign(x)) is the Dale step at delta mu = 3 delta sigma²/2, kappa = 0."""
    start, eta, gradient = state(), 0.3, normal((6, 3), 10)
    expected = start.x * torch.exp(-eta * gradient * start.x.sign())
    for variance in (0.0, 0.1, 2.0):  # it has no say
        step = STEP._replace(drift=1.5 * variance, variance=variance, kappa=0.0)
        pull = -eta * gradient * start.sign
        y = dale_step(start.y, pull, step, normal((6, 3), 11))
        torch.testing.assert_close(start.sign * y.exp(), expected, rtol=1e-13, atol=0)


def test_mirrored_langevin_has_its_stationary_variance() -> None:
    """y <- (1 - eps/v) y + √(2 eps) z has stationary variance v/(1 - eps/(2 v)), not v.

    The start's excess decays by (1 - eps/v)² = 1/4 a step, 1e-12 after 20. The sample variance of
    n normals has the relative standard error √(2/n) = 0.0032; the two claims are 33 % apart.
    """
    count, v, eps = 200_000, 0.04, 0.02
    noise = generator(12)
    step = STEP._replace(s=1.0, s_next=1.0, drift=eps / 2, variance=eps, kappa=math.sqrt(2))
    chain = State.of_log(math.sqrt(v) * normal((count, 1), 13))
    for _ in range(20):
        z = torch.randn((count, 1), generator=noise, dtype=torch.float64)
        chain, _ = adls(lambda y, s: y - y / v, chain, step, z)  # D = y + s² log_score, s = 1
    measured, tolerance = float(chain.y.var()), 4 * math.sqrt(2 / count)
    assert measured == pytest.approx(v / (1 - eps / (2 * v)), rel=tolerance)
    assert measured != pytest.approx(v, rel=tolerance)
