"""FID and KID against closed forms, brute force and two references; the protocol of a number."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor, nn

from ablate.core.errors import UserError
from ablate.metrics import kid
from ablate.metrics.estimate import Estimate, paired_difference
from ablate.metrics.fid import (
    Statistics,
    features_to_fid,
    features_to_statistics,
    measure_fid,
    statistics_to_fid,
)
from ablate.metrics.fid_infinity import measure_fid_infinity
from ablate.metrics.kid import features_to_kid, kid_of_subsets, within
from ablate.metrics.protocol import Protocol
from ablate.results import require_same
from tests.support.beds import generator, normal


def features(count: int, width: int, seed: int) -> Tensor:
    """Correlated, off centre."""
    mixing = normal((width, width), seed + 1) / math.sqrt(width)
    return 0.5 + normal((count, width), seed) @ mixing


def statistics(mean: list[float], covariance: list[list[float]]) -> Statistics:
    return Statistics(*(torch.tensor(part, dtype=torch.float64) for part in (mean, covariance)))


# --- Fréchet ------------------------------------------------------------------------------------


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


class Flat(nn.Module):
    """The simplest extractor: a pixel is a feature."""

    num_features = 24

    def forward(self, image: Tensor) -> Tensor:
        return image.flatten(1)


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


def infinity_of(
    shift: float, seed: int, count: int = 400, width: int = 48
) -> tuple[Estimate, float]:
    """FID∞ and plain FID of two Gaussian sets, one moved: that of infinitely many is its square."""
    mixing = normal((width, width), 3) / width**0.5
    a, b = (normal((count, width), 1000 * seed + k) @ mixing for k in (1, 2))
    a = a + shift / width**0.5
    found = measure_fid_infinity(a, b).estimate
    return found, features_to_fid(a, features_to_statistics(b))


@pytest.mark.parametrize("shift", [0.0, 0.8])
def test_fid_infinity_is_unbiased_where_fid_is_not(shift: float) -> None:
    """Over 40 repetitions its mean is within four standard errors of the truth, plain FID's is
    more than ten away; and two of its own standard errors cover the truth 9 times of 10 at least
    (95 % expected of an honest bar, of which 40 trials fall below 36 in 5 cases of 100; ours are
    on the safe side)."""
    found, plain = zip(*(infinity_of(shift, seed) for seed in range(40)), strict=True)
    values = torch.tensor([each.value for each in found], dtype=torch.float64)
    error = float(values.std() / len(values) ** 0.5)
    assert abs(float(values.mean()) - shift**2) < 4 * error
    assert min(plain) - shift**2 > 10 * error
    covered = sum(abs(each.value - shift**2) < 2 * each.error for each in found)
    assert covered >= 36


def moved(a: Statistics, x: Tensor, step: float) -> Statistics:
    """A share `step` of the set's mass moved onto x."""
    apart = x - a.mean
    grown = a.covariance + step * (torch.outer(apart, apart) - a.covariance)
    return Statistics(a.mean + step * apart, grown)


@pytest.mark.parametrize("count", [9, 40])
def test_influence_on_fid_is_its_derivative(count: int) -> None:
    """By central differences, step h = 1e-3: their error is h² of the third derivative (that of a
    root, some 1e2 where a slope is 10), and rounding's 1e-8 in the root of a zero eigenvalue over
    2 h: both below 1e-3 of the largest slope. With fewer samples than features C_a has room to move
    where the samples are, and that is where they move it."""
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
    """Of 100 repetitions: a variance has an error of √(2/99) = 14 %, four of them either way."""
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


@pytest.mark.parametrize("metric", ["fid", "kid"])
def test_paired_differences_are_sharper_and_honest(metric: str) -> None:
    """Two generators that share random numbers, 100 times: the error told is the spread's, as above
    (KID's may be on the safe side, up to twice the variance), and many times smaller than that of
    two that do not."""
    shared, apart, values = [], [], []
    for seed in range(100):
        z, b = normal((150, 12), 2 * seed), normal((400, 12), 2 * seed + 1)
        known = features_to_statistics(b)
        first, second = (
            measure_fid(x, b, known) if metric == "fid" else features_to_kid(x, b)
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


# --- kernel -------------------------------------------------------------------------------------


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

    Also the check of the check: with the diagonal left in (the biased form) the mean is far off.
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


def test_known_part_of_the_reference_changes_nothing() -> None:
    a, b = features(40, 8, 33), features(50, 8, 35)
    known, found = features_to_kid(a, b, within(b)), features_to_kid(a, b)
    assert known.estimate == found.estimate
    assert torch.equal(known.reference, found.reference)


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
    """Features stored short are first made long: no sum is taken in their own precision."""
    a, b = features(60, 12, 41).to(dtype), features(60, 12, 43).to(dtype)
    assert features_to_kid(a, b).estimate == features_to_kid(a.double(), b.double()).estimate
    assert within(a).pairs == within(a.double()).pairs
    short, long = features_to_statistics(a), features_to_statistics(a.double())
    assert all(torch.equal(x, y) for x, y in zip(short, long, strict=True))


def test_pairs_alone_explain_nothing_of_a_constant_kernel() -> None:
    """Ten images that are all one have no variance; nor does it change with what all share."""
    assert within(torch.ones(10, 4)).pairs < 1e-12
    few = 0.5 + 0.2 * normal((20, 64), 1)
    k = (few @ few.T / 64 + 1) ** 3
    off = ~torch.eye(20, dtype=torch.bool)
    rows = (k * off).sum(1) / 19
    apart = rows - rows.mean()
    left = (k - rows.mean() - 19 / 18 * (apart[:, None] + apart[None, :]))[off]
    assert within(few).pairs == pytest.approx(2 * float((left**2).sum()) / (20 * 19) ** 2, rel=1e-6)


def test_kids_standard_error_with_few_images_and_features_that_are_not_centred() -> None:
    """As Inception's are. A spread over 200 has an error of 5 %, four of them either way, and what
    is told of 50 images may be a tenth on the safe side."""
    beds = ((normal((50, 64), 2 * s), normal((50, 64), 2 * s + 1)) for s in range(200))
    found = [features_to_kid(0.5 + 0.2 * a, 0.5 + 0.2 * b).estimate for a, b in beds]
    spread = float(torch.tensor([each.value for each in found], dtype=torch.float64).std())
    told = (sum(each.error**2 for each in found) / 200) ** 0.5
    assert 0.8 < told / spread < 1.3


def test_fid_infinity_does_not_mind_the_order_of_classes() -> None:
    """Two classes in turn: every second image is of one class, and so would a half be."""
    a, b = (normal((800, 4), seed) + 10 * (torch.arange(800) % 2)[:, None] for seed in (1, 2))
    found = measure_fid_infinity(a, b).estimate
    assert abs(found.value) < 4 * found.error
    assert found.error < 1


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


# --- protocol -----------------------------------------------------------------------------------

PROTOCOL = Protocol("digits-features", "6fe1", "none", True, "digits/train", "ca7d", 1438, 1000, 1)
OTHER = Protocol("inception", "abcd", "tf-bilinear-299", False, "digits/test", "0000", 359, 999, 3)


@pytest.mark.parametrize("field", Protocol._fields)
def test_every_field_counts(field: str) -> None:
    changed = PROTOCOL._replace(**{field: getattr(OTHER, field)})
    assert changed.hash != PROTOCOL.hash
    with pytest.raises(UserError) as caught:
        require_same(PROTOCOL._asdict(), changed._asdict())
    text = str(caught.value)
    assert f"{field}: {getattr(PROTOCOL, field)} against {getattr(OTHER, field)}" in text
    assert not any(f"{other}: " in text for other in Protocol._fields if other != field)


def test_equal_protocols_are_let_through_and_the_hash_is_pinned() -> None:
    """The hash stands in MLflow beside old numbers: it must not change from version to version."""
    require_same(PROTOCOL._asdict(), Protocol(*PROTOCOL)._asdict())
    assert Protocol(*PROTOCOL).hash == PROTOCOL.hash == "270537cd"


def test_all_that_differs_is_said_at_once() -> None:
    with pytest.raises(UserError) as caught:
        require_same(PROTOCOL._asdict(), OTHER._asdict())
    assert str(caught.value).count(" against ") == len(Protocol._fields)
    assert "\n" not in str(caught.value)
