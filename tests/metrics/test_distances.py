"""What FID and KID have in common: order, precision, and differences of paired samples."""

from __future__ import annotations

import pytest
import torch

from ablate.metrics.estimate import paired_difference
from ablate.metrics.fid import features_to_statistics, measure_fid, statistics_to_fid
from ablate.metrics.kid import features_to_kid, within
from tests.metrics.feature_sets import features
from tests.support.beds import generator, normal


def test_distances_do_not_depend_on_order_or_batch() -> None:
    """A sum in another order: float64 rounding, 1e-16 of terms of size 1 to 100, over 1e4 pairs."""
    a, b = features(70, 12, 37), 1.2 * features(90, 12, 39)
    mixed_a = a[torch.randperm(70, generator=generator(1))]
    mixed_b = b[torch.randperm(90, generator=generator(2))]
    mixed_kid = features_to_kid(mixed_a, mixed_b).value
    assert mixed_kid == pytest.approx(features_to_kid(a, b).value, rel=1e-9)
    fid = statistics_to_fid(features_to_statistics(a), features_to_statistics(b))
    mixed = statistics_to_fid(features_to_statistics(mixed_a), features_to_statistics(mixed_b))
    assert mixed == pytest.approx(fid, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_distances_are_computed_in_float64(dtype: torch.dtype) -> None:
    """Features in short formats are converted first: no sum is taken in their precision."""
    a, b = features(60, 12, 41).to(dtype), features(60, 12, 43).to(dtype)
    assert features_to_kid(a, b).estimate == features_to_kid(a.double(), b.double()).estimate
    assert within(a).pairs == within(a.double()).pairs
    short, long = features_to_statistics(a), features_to_statistics(a.double())
    assert all(torch.equal(x, y) for x, y in zip(short, long, strict=True))


@pytest.mark.parametrize("metric", ["fid", "kid"])
def test_paired_differences_are_sharper_and_honest(metric: str) -> None:
    """Two generators that share random numbers, 100 times: the reported error is the spread's,
    within four errors of √(2/99) = 14 % of a variance (KID's may be too large, up to twice the
    variance), and many times smaller than that of two that do not share them."""
    shared, apart, values = [], [], []
    for seed in range(100):
        z, b = normal((150, 12), 2 * seed), normal((400, 12), 2 * seed + 1)
        statistics = features_to_statistics(b)
        first, second = (
            measure_fid(x, b, statistics) if metric == "fid" else features_to_kid(x, b)
            for x in (1.3 * z + 0.4, 1.33 * z + 0.42)
        )
        found = paired_difference(first, second)
        values.append(found.value)
        shared.append(found.error**2)
        apart.append(first.estimate.error**2 + second.estimate.error**2)
    spread = float(torch.tensor(values, dtype=torch.float64).var())
    most = (2 if metric == "kid" else 1) + 4 * 0.14
    assert 1 - 4 * 0.14 < sum(shared) / 100 / spread < most
    assert sum(apart) > 20 * sum(shared)


def test_what_is_not_paired_is_refused() -> None:
    one, other = (features_to_kid(features(n, 5, n), features(9, 5, 1)) for n in (12, 13))
    with pytest.raises(ValueError, match="12 and 13 samples"):
        paired_difference(one, other)
