"""FID against closed forms, two references and its own spread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from ablate.metrics.fid import (
    Statistics,
    features_to_fid,
    features_to_statistics,
    measure_fid,
    statistics_to_fid,
)
from tests.metrics.feature_sets import Flat, features
from tests.support.beds import normal


def statistics(mean: list[float], covariance: list[list[float]]) -> Statistics:
    return Statistics(*(torch.tensor(part, dtype=torch.float64) for part in (mean, covariance)))


def test_statistics_are_numpys() -> None:
    found = features_to_statistics(features(50, 6, 1).float())
    rows = features(50, 6, 1).float().double().numpy()
    np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(rows, rowvar=False), rtol=1e-12)


def test_fid_of_diagonal_gaussians() -> None:
    """‖m_a - m_b‖² + Σ (√a_i - √b_i)², with a direction in which one has no spread at all."""
    a, b = torch.tensor([4.0, 9, 0, 1]).double(), torch.tensor([1.0, 16, 25, 1]).double()
    first = Statistics(torch.tensor([0.0, 1, 2, 3]).double(), a.diag())
    second = Statistics(torch.tensor([1.0, 1, 0, 3]).double(), b.diag())
    assert statistics_to_fid(first, second) == pytest.approx((1 + 4) + (1 + 1 + 25 + 0), rel=1e-12)


def test_fid_of_gaussians_whose_covariances_do_not_commute() -> None:
    """In two dimensions tr (AB)^½ = √(tr AB + 2 √det AB), by Cayley-Hamilton."""
    first = statistics([0.3, -1.0], [[2.0, 0.6], [0.6, 1.0]])
    second = statistics([0.0, 0.5], [[0.5, -0.4], [-0.4, 3.0]])
    a, b = first.covariance, second.covariance
    assert not torch.allclose(a @ b, b @ a)
    product = a @ b
    root = torch.sqrt(product.trace() + 2 * torch.det(product).sqrt())
    expected = 0.09 + 2.25 + float(a.trace() + b.trace() - 2 * root)
    assert statistics_to_fid(first, second) == pytest.approx(expected, rel=1e-12)


def test_fid_of_scaled_gaussian() -> None:
    """C_b = c² C_a: tr C (1 - c)², full matrices, 64 dimensions."""
    covariance = features_to_statistics(features(500, 64, 3)).covariance
    zero = torch.zeros(64, dtype=torch.float64)
    found = statistics_to_fid(Statistics(zero, covariance), Statistics(zero, 2.25 * covariance))
    assert found == pytest.approx(0.25 * float(covariance.trace()), rel=1e-10)


def test_fid_agrees_with_the_reference_formula() -> None:
    """scipy.linalg.sqrtm of C_a C_b, as the original implementation has it."""
    a, b = features(400, 24, 5), 1.3 * features(300, 24, 7) + 0.1
    first, second = features_to_statistics(a), features_to_statistics(b)
    root = scipy.linalg.sqrtm(first.covariance.numpy() @ second.covariance.numpy())
    traces = np.trace(first.covariance.numpy() + second.covariance.numpy() - 2 * root.real)
    expected = float(((first.mean - second.mean) ** 2).sum()) + traces
    assert statistics_to_fid(first, second) == pytest.approx(expected, rel=1e-8)


def test_fid_agrees_with_torchmetrics() -> None:
    from torchmetrics.image.fid import FrechetInceptionDistance

    a, b = features(400, 24, 9), 1.3 * features(300, 24, 11) + 0.1
    metric = FrechetInceptionDistance(Flat(), normalize=True)
    for part in b.split(100):
        metric.update(part.view(-1, 1, 4, 6), real=True)
    metric.update(a.view(-1, 1, 4, 6), real=False)
    ours = statistics_to_fid(features_to_statistics(a), features_to_statistics(b))
    assert ours == pytest.approx(float(metric.compute()), rel=1e-8)


def test_fid_of_itself_is_zero_even_when_singular() -> None:
    """30 rows in 64 dimensions: 35 eigenvalues are rounding, and none may turn into a NaN.

    √ turns rounding of 1e-16 tr C into 1e-8; 35 of those, relative to the trace.
    """
    one = features_to_statistics(features(30, 64, 13))
    assert abs(statistics_to_fid(one, one)) < 35 * 2e-8 * float(one.covariance.trace())


def test_fid_is_symmetric_and_scales_by_the_square() -> None:
    a, b = features(300, 16, 15), 1.5 * features(200, 16, 17)
    first, second = features_to_statistics(a), features_to_statistics(b)
    there = statistics_to_fid(first, second)
    assert statistics_to_fid(second, first) == pytest.approx(there, rel=1e-9)
    larger = statistics_to_fid(features_to_statistics(3 * a), features_to_statistics(3 * b))
    assert larger == pytest.approx(9 * there, rel=1e-9)


@pytest.mark.parametrize("count", [4, 11, 12, 40])
def test_fid_from_few_features_is_that_of_their_statistics(count: int) -> None:
    """An N×N problem up to 12 samples, an f×f one above. Where C_a C_b has zero eigenvalues either
    finds them to 1e-16 of the largest, and their roots to 1e-8."""
    samples, reference = features(count, 12, 5), features_to_statistics(features(60, 12, 7))
    expected = statistics_to_fid(features_to_statistics(samples), reference)
    assert features_to_fid(samples, reference) == pytest.approx(expected, rel=1e-6)


def moved(a: Statistics, x: Tensor, step: float) -> Statistics:
    """A share `step` of the set's mass moved onto x."""
    apart = x - a.mean
    grown = a.covariance + step * (torch.outer(apart, apart) - a.covariance)
    return Statistics(a.mean + step * apart, grown)


@pytest.mark.parametrize("count", [9, 40])
def test_influence_on_fid_is_its_derivative(count: int) -> None:
    """By central differences, step h = 1e-3: their error is h² of the third derivative (that of a
    root, some 1e2 where a slope is 10), and rounding's 1e-8 in the root of a zero eigenvalue over
    2 h: both below 1e-3 of the largest slope. With fewer samples than features C_a is singular, and
    samples change it only in the directions that they span."""
    samples, reference = features(count, 12, 5).double(), features(60, 12, 7).double()
    a, b = features_to_statistics(samples), features_to_statistics(reference)
    found = measure_fid(samples, reference, b)
    assert found.value == pytest.approx(statistics_to_fid(a, b), rel=1e-6)

    def slopes(rows: Tensor, fid: Callable[[Tensor, float], float]) -> Tensor:
        h = 1e-3
        return torch.tensor([(fid(x, h) - fid(x, -h)) / (2 * h) for x in rows]).double()

    sides = {
        "reference": slopes(reference, lambda x, h: features_to_fid(samples, moved(b, x, h))),
        "samples": slopes(samples, lambda x, h: statistics_to_fid(moved(a, x, h), b)),
    }
    for side, expected in sides.items():
        mine = getattr(found, side)
        apart = (mine - mine.mean()) - (expected - expected.mean())
        assert float(apart.abs().max()) < 1e-3 * float(expected.abs().max())


@pytest.mark.parametrize(("count", "width"), [(200, 16), (60, 96)])
def test_fids_standard_error_is_its_spread(count: int, width: int) -> None:
    """A variance over 100 repetitions has an error of √(2/99) = 14 %; four of them are allowed."""
    mixing = normal((width, width), 3) / width**0.5
    values, squares = [], []
    for seed in range(100):
        a = normal((count, width), 2 * seed) @ mixing + 0.3
        b = 1.2 * normal((3 * count, width), 2 * seed + 1) @ mixing
        found = measure_fid(a, b, features_to_statistics(b)).estimate
        values.append(found.value)
        squares.append(found.error**2)
    ratio = sum(squares) / 100 / float(torch.tensor(values, dtype=torch.float64).var())
    assert 1 - 4 * 0.14 < ratio < 1 + 4 * 0.14
