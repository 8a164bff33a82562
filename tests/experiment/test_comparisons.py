"""The covariance of trials' values, by which a report compares any of them in pairs."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.experiment.comparisons import DIGITS, covariance
from ablate.metrics.estimate import FIXED, Measured, contrast
from tests.support.beds import normal


def three_trials() -> list[Measured]:
    """Trials that share most of their noise, and their reference images."""
    shared, reference = normal((50,), 0), normal((30,), 1)
    own = [normal((50,), seed) for seed in (2, 3, 4)]
    return [Measured(0.0, shared + 0.1 * each, reference + 0.2 * i) for i, each in enumerate(own)]


def test_contrasts_have_the_errors_of_their_images() -> None:
    """The covariance gives what the influences give directly, up to its rounding."""
    trials, weights = three_trials(), (1.0, -0.5, -0.5)
    rows = covariance(trials)
    full = [[rows[max(i, j)][min(i, j)] for j in range(3)] for i in range(3)]
    matrix, w = torch.tensor(full).double(), torch.tensor(weights).double()
    found = math.sqrt(float(w @ matrix @ w))
    expected = contrast(list(zip(weights, trials, strict=True))).error
    # entries below 0.07 are rounded to 7 digits and float32: their sum is off by less than 1e-7
    assert found**2 == pytest.approx(expected**2, abs=1e-7)
    assert [len(row) for row in rows] == [1, 2, 3]


def test_a_reference_that_is_fixed_adds_nothing() -> None:
    trials = [each._replace(reference=FIXED) for each in three_trials()]
    assert covariance(trials[:1])[0][0] == pytest.approx(
        float(trials[0].samples.var()) / 50, rel=10.0 ** (1 - DIGITS)
    )
