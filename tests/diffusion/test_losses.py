"""The three score-matching losses against each other on log-normal data, where all is closed form.

Every tolerance is 4 standard errors over independent blocks, and every standard error is first
shown to be small against the measured value: a test that noise could pass proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from ablate.diffusion import losses
from ablate.diffusion.moments import Gaussian, fit_gaussian
from ablate.diffusion.oracles import log_normal
from tests.support.beds import blocks, normal

COUNT, SIZE, D = 60_000, 500, 3
MEAN = torch.tensor([0.1, 0.4, 0.6], dtype=torch.float64)
V = 0.3  # log-variance of the data
ORACLE = log_normal(MEAN, torch.full((D,), V, dtype=torch.float64))

Model = Callable[[torch.Tensor, float], torch.Tensor]
# models of x∘∇log p, from y, at any s: right, and wrong in different ways
MODELS: dict[str, Model] = {
    "exact": lambda y, s: ORACLE.log_score(y, s) - 1,
    "scaled": lambda y, s: 0.5 * (ORACLE.log_score(y, s) - 1),
    "shifted": lambda y, s: ORACLE.log_score(y, s) + 0.7,
    "nonlinear": lambda y, s: torch.sin(2 * y) - y**2,
    "zero": lambda y, s: 0 * y,
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def data() -> torch.Tensor:
    return MEAN + math.sqrt(V) * normal((COUNT, D), 1)


@every_model
@pytest.mark.parametrize("s", [0.3, 0.8])
def test_mdsm_is_mesm_and_a_constant(model: Model, s: float) -> None:
    """M-DSM - M-ESM = d/2 (1/s² - 1/(s² + v)), for every model."""
    y_0 = data()
    y = y_0 + s * normal((COUNT, D), 2)
    truth, guess = ORACLE.log_score(y, s) - 1, model(y, s)

    def difference(rows: slice) -> torch.Tensor:
        mdsm = losses.mdsm(guess[rows], y[rows], y_0[rows], s)
        return mdsm - losses.mesm(guess[rows], truth[rows])

    constant = D / 2 * (1 / s**2 - 1 / (s**2 + V))
    mean, error = blocks(difference, COUNT, SIZE)
    assert error < 0.02 * constant
    assert abs(mean - constant) < 4 * error


def test_mdsm_knows_shift_and_levels_by_row() -> None:
    """A shift m(t) added to y and passed to the loss changes nothing; s and m may differ by row."""
    y_0, z = data()[:8], normal((8, D), 3)
    s, m = torch.linspace(0.1, 0.8, 8).double()[:, None], torch.linspace(-1, 1, 8).double()[:, None]
    guess = normal((8, D), 4)
    together = losses.mdsm(guess, y_0 + m + s * z, y_0, s, m)
    target = -(1 + z / s)  # (y_t - y_0 - m)/s² = z/s
    by_hand = 0.5 * ((guess - target) ** 2).sum() / 8
    torch.testing.assert_close(together, by_hand, rtol=1e-12, atol=0)
    torch.testing.assert_close(losses.mdsm_target(y_0 + m + s * z, y_0, s, m), target)


def test_mdsm_target_is_the_conditional_hyvarinen() -> None:
    """x∘∇ of the log-normal transition density, by automatic differentiation."""
    s, m = 0.4, 0.2
    y_0, y = data()[:10], data()[10:20]
    x = y.exp().requires_grad_()
    log_density = -((x.log() - y_0 - m) ** 2) / (2 * s**2) - x.log()
    gradient = torch.autograd.grad(log_density.sum(), x)[0]
    torch.testing.assert_close(losses.mdsm_target(y, y_0, s, m), x.detach() * gradient)


@every_model
def test_nonnegative_is_mesm_at_zero_and_a_constant(model: Model) -> None:
    """M-ESM - J = ½ E‖x∘∇log p‖²; here x∘∇log p = -(1 + (y - mean)/v), so d/2 (1 + 1/v)."""
    y = data()

    def difference(rows: slice) -> torch.Tensor:
        mesm = losses.mesm(model(y[rows], 0.0), ORACLE.log_score(y[rows], 0.0) - 1)
        return mesm - losses.nonnegative(lambda x: model(x.log(), 0.0) / x, y[rows].exp()).detach()

    constant = D / 2 * (1 + 1 / V)
    mean, error = blocks(difference, COUNT, SIZE)
    assert error < 0.02 * constant
    assert abs(mean - constant) < 4 * error


def test_nonnegative_by_hand() -> None:
    """psi(x) = -a x: ½ a² x⁴ - 2 a x² - a x², summed; the derivative is the diagonal's alone."""
    x, a = data()[:20].exp(), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    expected = (0.5 * a**2 * x**4 - 3 * a * x**2).sum(1).mean()
    torch.testing.assert_close(losses.nonnegative(lambda x: -a * x, x).detach(), expected)
    mixing = normal((3, 3), 9)  # off-diagonal derivatives must not enter
    psi = x @ mixing.T
    by_hand = (0.5 * (x * psi) ** 2 + 2 * x * psi + x**2 * mixing.diagonal()).sum(1).mean()
    torch.testing.assert_close(losses.nonnegative(lambda x: x @ mixing.T, x).detach(), by_hand)


def test_nonnegative_can_be_trained() -> None:
    """Its gradient reaches the model's parameters, and vanishes at the truth.

    Over models psi = (a (mean - y)/v - 1)/x the loss is a parabola with its bottom at a = 1, in
    expectation; d J/d a at a = 1 is a mean of COUNT values, within 4 standard errors of 0.
    """
    y = data()

    def slope(rows: slice) -> torch.Tensor:
        a = torch.ones((), dtype=torch.float64, requires_grad=True)
        loss = losses.nonnegative(lambda x: (a * (MEAN - x.log()) / V - 1) / x, y[rows].exp())
        return torch.autograd.grad(loss, a)[0]

    mean, error = blocks(slope, COUNT, SIZE)
    curvature = D / V  # d² J/d a² = E Σ ((mean - y)/v)²
    assert error < 0.02 * curvature
    assert abs(mean) < 4 * error


@pytest.mark.parametrize("s", [0.05, 0.3, 2.0])
def test_preconditioned_is_one_for_wiener_on_gaussian_data(s: float) -> None:
    spread = normal((D, D), 5)
    law = torch.distributions.MultivariateNormal(MEAN, spread @ spread.T)
    gaussian = _gaussian(law)
    y_0 = MEAN + normal((COUNT, D), 6) @ spread.T
    y = y_0 + s * normal((COUNT, D), 7)
    levels = torch.full((COUNT, 1), s, dtype=torch.float64)
    denoised, variance = gaussian.wiener(y, levels), gaussian.wiener_error(levels)
    mean, error = blocks(
        lambda rows: losses.preconditioned(denoised[rows], y_0[rows], variance[rows]), COUNT, SIZE
    )
    assert error < 0.02
    assert abs(mean - 1) < 4 * error


def _gaussian(law: torch.distributions.MultivariateNormal) -> Gaussian:
    values, vectors = torch.linalg.eigh(law.covariance_matrix)
    return Gaussian(law.mean, vectors.T, values, torch.zeros((), dtype=torch.float64))


def test_preconditioned_punishes_a_worse_denoiser() -> None:
    """On y_0's own sample fit, doing nothing costs s²/c_out² > 1."""
    y_0, s = data(), 0.8
    gaussian = fit_gaussian(y_0, D)
    levels = torch.full((COUNT, 1), s, dtype=torch.float64)
    y = y_0 + s * normal((COUNT, D), 8)
    cost = losses.preconditioned(y, y_0, gaussian.wiener_error(levels))
    expected = s**2 / float(gaussian.wiener_error(levels)[0])  # = 1 + s²/v
    # a mean of COUNT·D squares of normals: relative standard error √(2/(COUNT·D))
    assert float(cost) == pytest.approx(expected, rel=4 * (2 / (COUNT * D)) ** 0.5)
