"""Oracles against automatic differentiation, quadrature and their own draws."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.stats import kstest

from ablate.diffusion.oracles import LogNormalMixture
from tests.support.beds import P_FOUR, generator, normal, one_mode, three_dimensions, two_modes

ORACLES = {"one-mode": one_mode(), "two-modes": two_modes(), "3-d": three_dimensions()}
every_oracle = pytest.mark.parametrize("oracle", ORACLES.values(), ids=ORACLES.keys())
every_level = pytest.mark.parametrize("s", [0.0, 0.1, 0.8])


def points(oracle: LogNormalMixture, seed: int = 0) -> torch.Tensor:
    return 0.3 + 0.4 * normal((50, oracle.means.shape[1]), seed)


@every_oracle
@every_level
def test_scores_are_gradients(oracle: LogNormalMixture, s: float) -> None:
    """Both sides are closed forms of some hundred roundings: 1e-9 of the largest is ample."""
    x = points(oracle).exp().requires_grad_()
    gradient = torch.autograd.grad(oracle.log_density(x, s).sum(), x)[0]
    torch.testing.assert_close(oracle.stein(x, s), gradient, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(oracle.hyvarinen(x, s), x * gradient, rtol=1e-9, atol=1e-9)
    y = points(oracle).requires_grad_()
    gradient = torch.autograd.grad(oracle.log_density_y(y, s).sum(), y)[0]
    torch.testing.assert_close(oracle.log_score(y, s), gradient, rtol=1e-9, atol=1e-9)


@every_oracle
@every_level
def test_log_score_is_one_more_than_hyvarinen(oracle: LogNormalMixture, s: float) -> None:
    y = points(oracle)
    torch.testing.assert_close(
        oracle.log_score(y, s), 1 + oracle.hyvarinen(y.exp(), s), rtol=1e-12, atol=1e-10
    )


@pytest.mark.parametrize("name", ["one-mode", "two-modes"])
@every_level
def test_density_integrates_to_one(name: str, s: float) -> None:
    """The trapezium rule converges faster than any power on a smooth density with flat ends."""
    y = torch.linspace(-9, 9, 40_001, dtype=torch.float64)[:, None]
    in_y = ORACLES[name].log_density_y(y, s).exp()
    assert float(torch.trapezoid(in_y, y[:, 0])) == pytest.approx(1, abs=1e-10)
    in_x = ORACLES[name].log_density(y.exp(), s).exp() * y.exp()[:, 0]  # dx = x dy
    assert float(torch.trapezoid(in_x, y[:, 0])) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("name", ["one-mode", "two-modes"])
@pytest.mark.parametrize("s", [0.1, 0.8])
def test_denoised_is_the_posterior_mean(name: str, s: float) -> None:
    oracle = ORACLES[name]
    y0 = torch.linspace(-2, 3, 20_001, dtype=torch.float64)
    y = torch.linspace(-1, 1.5, 23, dtype=torch.float64)
    log_joint = oracle.log_density_y(y0[:, None], 0.0) - (y[:, None] - y0) ** 2 / (2 * s**2)
    posterior = log_joint.softmax(1)
    expected = (posterior * y0).sum(1)
    torch.testing.assert_close(oracle.denoised(y[:, None], s)[:, 0], expected, rtol=0, atol=1e-9)


@every_oracle
def test_tweedie(oracle: LogNormalMixture) -> None:
    y, s = points(oracle), 0.4
    torch.testing.assert_close((oracle.denoised(y, s) - y) / s**2, oracle.log_score(y, s))


@every_oracle
def test_stein_identities_of_noised_draws(oracle: LogNormalMixture) -> None:
    """Stein's identities hold only if the draws, pushed to level s, have the law at s:
    E ∇log p(y) = 0 and E (∇_j log p)(y_j - E y_j) = -1, each within 4 standard errors."""
    count, s = 20_000, 0.3
    x = oracle.draw(count, generator(4))
    y = x.log() + s * normal(tuple(x.shape), 5)
    scores = oracle.log_score(y, s)
    mean = (oracle.weights[:, None] * oracle.means).sum(0)
    for values, expected in ((scores, 0.0), (scores * (y - mean), -1.0)):
        error = values.mean(0) - expected
        assert bool((error.abs() < 4 * values.std(0) / math.sqrt(count)).all())


@every_oracle
def test_moments_of_draws(oracle: LogNormalMixture) -> None:
    count = 20_000
    y = oracle.draw(count, generator(6)).log()
    weights = oracle.weights[:, None]
    mean = (weights * oracle.means).sum(0)
    variance = (weights * (oracle.variances + (oracle.means - mean) ** 2)).sum(0)
    assert y.shape == (count, oracle.means.shape[1])
    assert bool(((y.mean(0) - mean).abs() < 4 * (variance / count).sqrt()).all())
    squares = (y - mean) ** 2
    assert bool(((squares.mean(0) - variance).abs() < 4 * squares.std(0) / count**0.5).all())


def test_draws_follow_the_distribution_function() -> None:
    oracle = two_modes()
    y = oracle.draw(5_000, generator(7)).log()[:, 0]

    def cdf(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        v = torch.as_tensor(values)[:, None]
        parts = torch.special.ndtr((v - oracle.means[:, 0]) / oracle.variances[:, 0].sqrt())
        shares: npt.NDArray[np.float64] = (oracle.weights * parts).sum(1).numpy()
        return shares

    assert kstest(y.numpy(), cdf).pvalue > P_FOUR


def test_draws_need_no_global_rng() -> None:
    before = torch.get_rng_state()
    first, again = (two_modes().draw(10, generator(8)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)
