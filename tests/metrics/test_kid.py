"""KID against brute force, a reference and its own spread."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor

from ablate.metrics import kid
from ablate.metrics.kid import features_to_kid, kid_of_subsets, within
from tests.metrics.feature_sets import Flat, features
from tests.support.beds import generator, normal


def brute_force(a: Tensor, b: Tensor) -> float:
    """(1/(n(n-1))) Σ_{i≠j} k(a_i, a_j) + the same of b - (2/(nm)) Σ k(a_i, b_j), by loops."""

    def k(x: Tensor, y: Tensor) -> float:
        product: float = sum(p * q for p, q in zip(x.tolist(), y.tolist(), strict=True))
        cube: float = (product / len(x) + 1) ** 3
        return cube

    def within(rows: Tensor) -> float:
        pairs = [k(x, y) for i, x in enumerate(rows) for j, y in enumerate(rows) if i != j]
        return sum(pairs) / len(pairs)

    across = [k(x, y) for x in a for y in b]
    return within(a) + within(b) - 2 * sum(across) / len(across)


def test_kid_is_the_double_sum() -> None:
    a, b = features(12, 5, 21), 1.4 * features(9, 5, 23)
    assert features_to_kid(a, b).value == pytest.approx(brute_force(a, b), rel=1e-10)


def test_kid_agrees_with_torchmetrics() -> None:
    """One subset of everything; the metric's shuffle then changes the order of sums alone."""
    from torchmetrics.image.kid import KernelInceptionDistance

    a, b = features(60, 24, 25), 1.2 * features(60, 24, 27)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it keeps all features
        metric = KernelInceptionDistance(Flat(), subsets=1, subset_size=60, normalize=True)
    metric.update(b.view(-1, 1, 4, 6), real=True)
    metric.update(a.view(-1, 1, 4, 6), real=False)
    with torch.random.fork_rng(devices=[]):  # it shuffles by the global generator
        expected = float(metric.compute()[0])
    assert features_to_kid(a, b).value == pytest.approx(expected, rel=1e-10)


def test_kid_is_unbiased() -> None:
    """Generator = data, 200 times over, small and unequal sets: the mean is zero.

    The test can fail: with the diagonal (the biased form) the mean would be far off.
    """
    sets = [(normal((20, 8), 2 * i), normal((30, 8), 2 * i + 1)) for i in range(200)]
    values = torch.tensor([features_to_kid(a, b).value for a, b in sets]).double()
    error = float(values.std()) / math.sqrt(len(values))
    assert abs(float(values.mean())) < 4 * error
    # k(a, a) has mean E(‖a‖²/f + 1)³ ≥ 8 where pairs have about 1: each set adds some 7/n
    assert 20 * error < 7 / 20


def test_kid_grows_with_the_distance() -> None:
    """A shift of every feature by 0.5 is far outside the noise of zero."""
    a, b = normal((100, 8), 31), normal((100, 8), 32)
    shifts = [features_to_kid(a + shift, b).value for shift in (0.0, 0.5, 1.0)]
    assert shifts[1] > 10 * abs(shifts[0])
    assert shifts[2] > shifts[1]


def test_a_given_reference_kernel_changes_nothing() -> None:
    a, b = features(40, 8, 33), features(50, 8, 35)
    given, computed = features_to_kid(a, b, within(b)), features_to_kid(a, b)
    assert given.estimate == computed.estimate
    assert torch.equal(given.reference, computed.reference)


def test_kid_in_pieces_is_kid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the kernel a few at a time: sums in another order, rounding of 1e-16 of each."""
    a, b = features(40, 8, 33), features(50, 8, 35)
    whole = features_to_kid(a, b)
    monkeypatch.setattr(kid, "PIECE", 7)
    parts = features_to_kid(a, b)
    assert parts.estimate == pytest.approx(whole.estimate, rel=1e-11)
    torch.testing.assert_close(parts.samples, whole.samples, rtol=1e-10, atol=1e-12)


def test_kid_of_one_whole_subset_is_kid() -> None:
    a, b = features(40, 8, 33), features(50, 8, 35)
    found = kid_of_subsets(a, b, generator(1), subsets=3, size=50)
    assert found.value == pytest.approx(features_to_kid(a, b).value, rel=1e-10)
    assert found.error < 1e-10 * abs(found.value)
    small = kid_of_subsets(a, b, generator(1), subsets=40, size=20)
    assert small.error > 0
    assert small == kid_of_subsets(a, b, generator(1), subsets=40, size=20)


def test_pairs_alone_explain_nothing_of_a_constant_kernel() -> None:
    """Ten equal images have no variance; for others it is the sum over pairs, written out."""
    assert within(torch.ones(10, 4)).pairs < 1e-12
    few = 0.5 + 0.2 * normal((20, 64), 1)
    k = (few @ few.T / 64 + 1) ** 3
    off = ~torch.eye(20, dtype=torch.bool)
    rows = (k * off).sum(1) / 19
    apart = rows - rows.mean()
    left = (k - rows.mean() - 19 / 18 * (apart[:, None] + apart[None, :]))[off]
    assert within(few).pairs == pytest.approx(2 * float((left**2).sum()) / (20 * 19) ** 2, rel=1e-6)


def test_kids_standard_error_with_few_images_and_features_that_are_not_centred() -> None:
    """As Inception's are. A spread over 200 has an error of 5 %, four of them either way, and the
    error reported for 50 images may be a tenth too large."""
    beds = ((normal((50, 64), 2 * s), normal((50, 64), 2 * s + 1)) for s in range(200))
    found = [features_to_kid(0.5 + 0.2 * a, 0.5 + 0.2 * b).estimate for a, b in beds]
    spread = float(torch.tensor([each.value for each in found], dtype=torch.float64).std())
    reported = (sum(each.error**2 for each in found) / 200) ** 0.5
    assert 0.8 < reported / spread < 1.3


@pytest.mark.parametrize(
    ("count", "reference", "shift"), [(128, 512, 0.3), (256, 256, 0.0), (100, 1000, 0.0)]
)
def test_kids_standard_error_covers_at_its_rate(count: int, reference: int, shift: float) -> None:
    """200 repetitions: 95 % of the intervals hold the truth, within three binomial deviations of
    1.5 % below; above, the degenerate case (equal laws) may only err on the safe side.

    The truth is the mean over the repetitions where it is not 0; its own error is 1/√200 of one
    interval's and moves the rate by less than a percent.
    """
    found = [
        features_to_kid(
            normal((count, 16), 2 * seed) + shift, normal((reference, 16), 2 * seed + 1)
        ).estimate
        for seed in range(200)
    ]
    values = torch.tensor([each.value for each in found], dtype=torch.float64)
    truth = float(values.mean()) if shift else 0.0
    covered = sum(low <= truth <= high for low, high in (each.interval for each in found))
    assert covered >= 200 * 0.95 - 3 * (200 * 0.95 * 0.05) ** 0.5
    mean_square = sum(each.error**2 for each in found) / 200
    assert float(values.var()) / 1.5 < mean_square < 1.5 * float(values.var())
