"""Means and intervals over the cells of a trial."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.core.quantiles import Z95, student_975
from ablate.metrics.kid import features_to_kid
from ablate.results import ERROR, summarise
from tests.support.beds import normal


def test_errors_of_cells_are_pooled() -> None:
    """Three cells of error e: the mean's is e/√3, however much or little their values differ."""
    for values in ((0.1, 0.1, 0.1), (0.0, 0.1, 0.2)):
        cells = [{"kid": value, "kid" + ERROR: 0.3} for value in values]
        means, widths = summarise(cells)
        assert means == {"kid": pytest.approx(0.1)}
        assert widths == {"kid": pytest.approx(Z95 * 0.3 / math.sqrt(3))}


def test_one_seed_has_an_interval() -> None:
    means, widths = summarise([{"kid": 0.1, "kid" + ERROR: 0.01, "nfe": 12.0}])
    assert means == {"kid": 0.1, "nfe": 12.0}
    assert widths == {"kid": pytest.approx(Z95 * 0.01)}


def test_metrics_without_errors_have_students_interval_over_seeds() -> None:
    _, widths = summarise([{"kid": 0.1}, {"kid": 0.2}, {"kid": 0.3}])
    assert widths["kid"] == pytest.approx(4.303 * 0.1 / math.sqrt(3), rel=1e-3)
    assert student_975(10**6) == pytest.approx(1.96, abs=1e-3)
    assert summarise([]) == ({}, {})


def test_intervals_over_samples_hold_what_they_say() -> None:
    """Three seeds of 64 samples against the same reference, 400 times: the interval holds the mean
    of all in 95 %. By chance the share of 400 is below 91.5 % once in 1,000 times. Above 99 % the
    intervals would be too wide to be of use."""
    reference = normal((300, 8), 0)
    trials = []
    for i in range(400):
        parts = [
            features_to_kid(normal((64, 8), 1 + 3 * i + k) * 1.2 + 0.3, reference) for k in range(3)
        ]
        cells = [{"kid": each.value, "kid" + ERROR: each.sampling_error} for each in parts]
        means, widths = summarise(cells)
        trials.append((means["kid"], widths["kid"]))
    values, halves = torch.tensor(trials, dtype=torch.float64).T
    share = float(((values - values.mean()).abs() <= halves).double().mean())
    assert 0.915 < share < 0.99
