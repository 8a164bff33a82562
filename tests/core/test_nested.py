"""Intervals over training seeds and components of variance, on cells of known variance."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest

from ablate.core.nested import Cells, Components, components, half_width
from ablate.core.quantiles import Z95, student_975

T, K = 3, 2
SEEDS = [g for g in range(T) for _ in range(K)]


def simulated(
    count: int, training: float, sampling: float, images: float, seed: int = 0
) -> np.ndarray:
    """Values of T × K cells around 0, with these standard deviations, [count, T K]."""
    rng = np.random.default_rng(seed)
    a = training * rng.standard_normal((count, T, 1))
    b = sampling * rng.standard_normal((count, T, K))
    e = images * rng.standard_normal((count, T, K))
    return (a + b + e).reshape(count, T * K)


@pytest.mark.parametrize(
    ("training", "sampling", "images"), [(1.0, 0.0, 1.0), (3.0, 1.0, 1.0), (0.2, 0.0, 1.0)]
)
def test_intervals_hold_training(training: float, sampling: float, images: float) -> None:
    """At least 95 % of intervals hold the mean: 4000 of them, so 4 standard errors are 0.014."""
    error = images / math.sqrt(T * K)
    cells = simulated(4000, training, sampling, images)
    halves = [half_width(row, SEEDS, error) or 0.0 for row in cells]
    held = fmean(abs(fmean(row)) <= half for row, half in zip(cells, halves, strict=True))
    assert held > 0.95 - 0.014


def test_the_interval_over_images_would_not() -> None:
    """With training as large as the images' error over a cell: what intervals held before."""
    cells = simulated(4000, 1.0, 0.0, 1.0)
    half = half_width(cells[0], [None] * (T * K), 1 / math.sqrt(T * K))
    assert half is not None
    assert half == pytest.approx(Z95 / math.sqrt(T * K))
    held = fmean(abs(fmean(row)) <= half for row in cells)
    # sd of the mean is √(1/3 + 1/6) = √3 times the error: 74 % are within 1.96/√3 of it
    assert held == pytest.approx(0.742, abs=4 * math.sqrt(0.742 * 0.258 / 4000))


def test_without_an_error_students_interval_alone_is_exact() -> None:
    cells = simulated(4000, 1.0, 1.0, 0.0, seed=1)
    halves = [half_width(row, SEEDS, None) or 0.0 for row in cells]
    held = fmean(abs(fmean(row)) <= half for row, half in zip(cells, halves, strict=True))
    assert held == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


def test_an_interval_by_hand() -> None:
    """Means 1, 2 and 3: their spread is 1, and the standard error 1/√3."""
    values, seeds = [0.5, 1.5, 2.0, 2.0, 2.5, 3.5], [0, 0, 1, 1, 2, 2]
    assert half_width(values, seeds, 0.01) == pytest.approx(student_975(2) / math.sqrt(3))
    assert half_width(values, seeds, 100.0) == pytest.approx(Z95 * 100)  # never narrower
    assert half_width([1.0, 2.0], [0, 0], None) == pytest.approx(student_975(1) / 2)
    assert half_width([1.0], [0], None) is None
    assert half_width([1.0], [0], 0.5) == pytest.approx(Z95 * 0.5)


def test_training_seeds_with_different_numbers_of_cells() -> None:
    """n = (2, 1), means 1 and 4, so m = 2: 2 ((2/3 · 1)² + (1/3 · 2)²) = 16/9."""
    half = half_width([0.0, 2.0, 4.0], [0, 0, 1], None)
    assert half == pytest.approx(student_975(1) * math.sqrt(16 / 9))


def test_components_of_known_variance() -> None:
    """Averaged over many configurations the estimates are near the truth.

    MS_T has T - 1 = 2 degrees of freedom a configuration and MS_S has T (K - 1) = 3, so their
    standard errors over n = 20,000 are E MS √(2/(2 n)) and E MS √(2/(3 n)).
    """
    n, training, sampling, images = 20_000, 2.0, 1.0, 0.5
    rows = simulated(n, training, sampling, images)
    found = components([Cells(row, SEEDS, [images] * (T * K)) for row in rows])
    assert found is not None
    within, between = sampling**2 + images**2, sampling**2 + images**2 + K * training**2
    of_within, of_between = within * math.sqrt(2 / (3 * n)), between * math.sqrt(2 / (2 * n))
    assert found.images == pytest.approx(images**2)
    assert found.sampling == pytest.approx(sampling**2, abs=4 * of_within)
    wrong = 4 * math.hypot(of_within, of_between) / K
    assert found.training == pytest.approx(training**2, abs=wrong)
    assert sum(share or 0 for share in found.shares) == pytest.approx(1)


def test_components_by_hand() -> None:
    """Means 1 and 3, cells ± 1 around them: MS_T = 2 · 2/1 = 4, MS_S = 4/2 = 2, MS_I = 0.25."""
    cells = Cells([0.0, 2.0, 2.0, 4.0], [0, 0, 1, 1], [0.5] * 4)
    assert components([cells]) == Components(training=1.0, sampling=1.75, images=0.25)


def test_one_cell_for_each_training_seed() -> None:
    """MS_T = ((−1)² + 1²)/1 = 2, and the errors stand for the sampling."""
    found = components([Cells([1.0, 3.0], [0, 1], [1.0, 1.0])])
    assert found == Components(training=1.0, sampling=None, images=1.0)
    assert found.shares == (0.5, None, 0.5)


def test_negative_estimates_count_as_nothing() -> None:
    found = components([Cells([0.0, 2.0, 0.0, 2.0], [0, 0, 1, 1], [3.0] * 4)])
    assert found == Components(training=0.0, sampling=0.0, images=9.0)


@pytest.mark.parametrize("seeds", [[0, 0, 0], [0, 0, 1]])
def test_no_components_without_a_nested_balanced_design(seeds: list[int]) -> None:
    assert components([Cells([1.0, 2.0, 3.0], seeds, [1.0] * 3)]) is None
    assert components([]) is None
