"""Contrasts over seeds: on shared noise, and with intervals that hold training."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
import torch

from ablate.core.quantiles import Z95, student_975
from ablate.metrics.estimate import Measured, contrast, mean_of, pooled
from ablate.metrics.over_seeds import contrast_over_seeds
from tests.support.beds import normal

SEEDS = [0, 1, 2, 0, 1, 2]
IMAGES = 16


def cells(values: list[float], seed: int = 0) -> list[Measured]:
    """Cells of these values, whose images have a spread of 1."""
    return [Measured(value, normal((IMAGES,), seed + k)) for k, value in enumerate(values)]


def test_one_network_has_the_interval_over_images() -> None:
    one, other = cells([0.1] * 6), cells([0.3] * 6, 100)
    found = contrast_over_seeds([(1, one), (-1, other)], [None] * 6)
    expected = contrast([(1, pooled(one)), (-1, pooled(other))])
    assert (found.value, found.error) == expected
    assert found.half == pytest.approx(Z95 * expected.error)


def test_training_seeds_widen_the_interval() -> None:
    """Differences of 1, 2 and 3 by training seed, on images that hardly differ."""
    flat = [Measured(0.0, torch.zeros(IMAGES))] * 6
    images = 1e-6 * normal((IMAGES,), 0)
    one = [Measured(value, images) for value in (1.0, 2.0, 3.0, 1.0, 2.0, 3.0)]
    found = contrast_over_seeds([(1, one), (-1, flat)], SEEDS)
    assert found.value == pytest.approx(2)
    assert found.half == pytest.approx(student_975(2) / math.sqrt(3))
    # t = 2/(1/√3) = 3.46 with 2 degrees of freedom: (1 - t/√(t² + 2))/2
    assert found.below == pytest.approx((1 - math.sqrt(12 / 14)) / 2)


def test_nothing_to_compare() -> None:
    assert contrast_over_seeds([], SEEDS) == (0.0, 0.0, 0.0, 0.5)


def test_p_values_hold_their_level_where_training_varies() -> None:
    """Two configurations that differ by training alone: 5 % at most of 2,000 pairs have p < 5 %.

    4 standard errors of such a share are 0.019.
    """
    rng, false = np.random.default_rng(0), []
    for _ in range(2000):
        pair = []
        for _ in range(2):
            trained = 0.5 * rng.standard_normal(3)
            drawn = torch.from_numpy(rng.standard_normal((6, IMAGES)))
            pair.append([mean_of(row + trained[s]) for row, s in zip(drawn, SEEDS, strict=True)])
        below = contrast_over_seeds([(1, pair[0]), (-1, pair[1])], SEEDS).below
        false.append(2 * min(below, 1 - below) < 0.05)
    assert fmean(false) < 0.05 + 0.019
