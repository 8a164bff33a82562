"""Precision, recall, density and coverage, by their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ablate.metrics.coverage import features_to_coverage, radii
from tests.metrics.feature_sets import distances
from tests.support.beds import normal


def means(samples: Tensor, real: Tensor, k: int = 5) -> dict[str, float]:
    found = features_to_coverage(samples, real, k).measured()
    return {name: each.value for name, each in found.items()}


def brute_force(samples: Tensor, real: Tensor, k: int) -> dict[str, float]:
    """By the definitions of the two papers, one pair at a time."""
    table = distances(samples, real)
    real_radius = distances(real, real).sort(1).values[:, k]  # 0 is itself
    sample_radius = distances(samples, samples).sort(1).values[:, k]
    inside = table <= real_radius[None, :]
    return {
        "precision": float(inside.any(1).double().mean()),
        "recall": float((table <= sample_radius[:, None]).any(0).double().mean()),
        "density": float(inside.double().sum() / (k * len(samples))),
        "coverage": float(inside.any(0).double().mean()),
    }


@pytest.mark.parametrize("k", [1, 3])
def test_coverage_by_its_definitions(piece: int, k: int) -> None:
    samples, real = 0.8 * normal((30, 5), 5) + 0.4, normal((41, 5), 6)
    found = means(samples, real, k)
    assert found == pytest.approx(brute_force(samples, real, k), abs=1e-12)
    assert 0.1 < found["precision"] < 1  # nothing here is decided by being all or none
    assert 0.1 < found["recall"] < 1


def test_what_they_show() -> None:
    """Samples of the same law score high in all; samples of one mode of two have precision and half
    the recall; noise far away has none."""
    two = torch.cat([normal((150, 4), 7), normal((150, 4), 8) + 20])
    again = torch.cat([normal((150, 4), 9), normal((150, 4), 10) + 20])
    whole = means(again, two)
    one = means(again[:150].repeat(2, 1) + 0.1 * normal((300, 4), 11), two)
    none = means(again + 500, two)
    assert whole["precision"] > 0.9
    assert whole["coverage"] > 0.9
    assert one["precision"] > 0.9
    assert 0.3 < one["coverage"] <= 0.5
    assert one["recall"] <= 0.5
    assert none == {"precision": 0.0, "recall": 0.0, "density": 0.0, "coverage": 0.0}


def test_given_radii_change_nothing() -> None:
    samples, real = normal((30, 5), 12), normal((41, 5), 13)
    given = features_to_coverage(samples, real, 3, radii(real, 3))
    pairs = zip(given, features_to_coverage(samples, real, 3), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_each_error_is_over_the_set_that_the_mean_is_over() -> None:
    found = features_to_coverage(normal((30, 5), 14), normal((41, 5), 15), 3).measured()
    assert [len(found[name].samples) for name in ("precision", "density")] == [30, 30]
    assert [len(found[name].reference) for name in ("recall", "coverage")] == [41, 41]


@pytest.mark.parametrize(("metric", "slack"), [("coverage", 1.25), ("recall", 2.0)])
def test_the_error_over_samples_is_the_spread_over_sets_of_samples(
    metric: str, slack: float
) -> None:
    """200 sets against the same real images: their spread is known to 5 %, and the mean of the
    errors is within 25 % of it for coverage. Recall leaves out that balls grow, which makes its
    error too large, never too small."""
    real = normal((150, 4), 6)
    found = [
        features_to_coverage(normal((60, 4), 100 + i), real, 5).measured()[metric]
        for i in range(200)
    ]
    spread = torch.tensor([each.value for each in found]).std()
    error = torch.tensor([each.sampling_error for each in found]).square().mean().sqrt()
    assert 1 / 1.25 < error / spread < slack
