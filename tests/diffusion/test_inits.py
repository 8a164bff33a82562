"""Starts, and the moments they use, against closed forms of synthetic data.

A start is affine in z, so its law is read off exactly: z = 0 gives the mean, the unit vectors the
columns of a root of the covariance. There is a sampling error only where classes are drawn.
"""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch import Tensor

from ablate.data.registry import DATASETS
from ablate.diffusion.inits import INITS, Source, chosen_class, lognormal_paper, pick
from ablate.diffusion.mixture import Mixture
from ablate.diffusion.moments import Gaussian, Moments, fit_gaussian, fit_moments
from ablate.samplers.noise import start_numbers
from tests.support.beds import normal

K, C, SIDE = 3, 3, 3
D = C * SIDE * SIDE  # 27: rows of a batch lie at odd addresses, the hard case for equal bits
S = 0.8
PAPER_FITS = {n: source.paper_fit for n, source in DATASETS.items() if source.paper_fit}
LEAKS_DATA = {name for name, init in INITS.items() if init.leaks_data}

every_init = pytest.mark.parametrize("name", INITS)


@cache
def images() -> tuple[Tensor, Tensor]:
    """x in [1, 2], [N, C, H, W], correlated, with classes of unlike mean and size; labels."""
    labels = torch.arange(600) % 7 % K
    mixing = normal((D, D), 1) / math.sqrt(D)
    raw = normal((600, D), 2) @ mixing + 0.7 * normal((K, D), 3)[labels]
    return (1 + torch.sigmoid(raw)).view(600, C, SIDE, SIDE), labels


@cache
def moments(rank: int = D) -> Moments:
    x, labels = images()
    return fit_moments(x, labels, rank, rank)


WEIGHTS = (0.1, 0.2, 0.3, 0.4)
"""Of four components that differ in five directions."""


@cache
def inner_moments() -> tuple[Tensor, Tensor]:
    """Means, [4, 5], and covariances, [4, 5, 5], of the components in these directions."""
    roots = normal((4, 5, 5), 7)
    return 0.3 * normal((4, 5), 6), 0.1 * roots @ roots.mT


def mixture(components: int = 4) -> Mixture:
    means, covariances = inner_moments()
    variances, vectors = torch.linalg.eigh(covariances)
    shares = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0.5, 0, 0.5], [0.25, 0.25, 0.5]]).double()
    return Mixture(torch.tensor(WEIGHTS).double(), means, vectors.mT, variances, shares)


def source() -> Source:
    x, labels = images()
    return Source(moments(), PAPER_FITS["cifar10"], x.flatten(1).log(), labels, mixture)


def in_float32(given: Source) -> Source:
    assert given.images is not None
    m = given.moments
    halves = Moments(
        m.everything.to(torch.float32),
        [part.to(torch.float32) for part in m.classes],
        m.class_averages.float(),
        m.channels,
    )
    return given._replace(moments=halves, images=given.images.float())


def mean_and_root(name: str, u: float, s: float = S) -> tuple[Tensor, Tensor]:
    """The affine map z -> mean + z root of a start with class (or image) u."""
    z = torch.cat([torch.zeros(1, D), torch.eye(D)]).double()
    drawn = INITS[name].draw(source(), s, torch.full((D + 1,), u), z)
    return drawn[0], drawn[1:] - drawn[0]


def middle(k: int, count: int) -> float:
    """The u in the middle of those that pick k."""
    return (k + 0.5) / count


# --- over the registry ---


@every_init
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_starts_are_finite_and_shaped(name: str, dtype: torch.dtype) -> None:
    given = source() if dtype == torch.float64 else in_float32(source())
    u, z = start_numbers(0, range(20), D)
    drawn = INITS[name].draw(given, S, u, z.to(dtype))
    assert drawn.shape == (20, D)
    assert drawn.dtype == dtype
    assert bool(drawn.isfinite().all())
    assert len(drawn.unique(dim=0)) == 20


@every_init
@pytest.mark.parametrize("size", [1, 7, 32])
def test_starts_do_not_depend_on_batch_or_order(name: str, size: int) -> None:
    """Bit by bit, which a matrix product over the whole batch would break."""
    given = in_float32(source())

    def draw(indices: list[int]) -> Tensor:
        return INITS[name].draw(given, S, *start_numbers(4, indices, D))

    whole = draw(list(range(64)))
    parts = [draw(list(range(i, min(i + size, 64)))) for i in range(0, 64, size)]
    assert torch.equal(torch.cat(parts), whole)
    order = [33, 4, 61, 5, 0]
    assert torch.equal(draw(order), whole[order])


@every_init
def test_every_class_is_drawn_alike(name: str) -> None:
    """u picks the class evenly, ends included: a start's mean over u is the mean over classes."""
    u = (torch.arange(600) + 0.5) / 600
    mean = INITS[name].draw(source(), S, u, torch.zeros(600, D).double()).mean(0)
    m = moments()
    expected = {
        "class-average": m.class_averages.log().mean(0),
        "class-gaussian": torch.stack([part.mean for part in m.classes]).mean(0),
        "forward-data": m.everything.mean,
        "mixture": m.everything.mean
        + torch.tensor(WEIGHTS).double() @ inner_moments()[0] @ m.everything.basis[:5],
    }.get(name, mean_and_root(name, 0.0)[0])
    torch.testing.assert_close(mean, expected, rtol=1e-6, atol=1e-6)  # u is float32
    INITS[name].draw(source(), S, torch.tensor([0.0, 1 - 2**-24]), torch.zeros(2, D).double())


def test_only_forward_data_leaks() -> None:
    assert {"forward-data"} == LEAKS_DATA
    bare = Source(moments(), PAPER_FITS["cifar10"], mixture=mixture)
    u, z = start_numbers(0, range(2), D)
    for name in INITS.keys() - LEAKS_DATA:
        assert INITS[name].draw(bare, S, u, z.double()).shape == (2, D)
    with pytest.raises(ValueError, match="training images are not on this machine"):
        INITS["forward-data"].draw(bare, S, u, z)


# --- one by one ---


@pytest.mark.parametrize("k", range(K))
def test_class_average(k: int) -> None:
    """The logarithm of the mean image, not the mean of the logarithms."""
    x, labels = images()
    mean, root = mean_and_root("class-average", middle(k, K))
    torch.testing.assert_close(mean, x[labels == k].mean(0).flatten().log())
    torch.testing.assert_close(root, S * torch.eye(D).double())


def test_lognormal_pools_pixels_by_channel() -> None:
    y = images()[0].log()  # [N, C, H, W]
    mean, root = mean_and_root("lognormal", 0.5)
    by_channel = y.transpose(0, 1).flatten(1)
    torch.testing.assert_close(mean, by_channel.mean(1).repeat_interleave(9))
    # torch.cov divides by N - 1 = 599, the pooled variance by its count: within 1/599 relative
    expected = by_channel.var(1, correction=0).repeat_interleave(9)
    variance = root.diagonal() ** 2 - S**2
    torch.testing.assert_close(variance, expected, rtol=1 / 599, atol=0)
    assert torch.equal(root, root.diagonal().diag())


def test_lognormal_of_a_truncated_fit_keeps_the_variance() -> None:
    """Truncation spreads the rest evenly, so pooled over all pixels nothing is lost."""
    full, short = (
        INITS["lognormal"].draw(
            Source(moments(rank)), 0.0, torch.zeros(1), torch.ones(1, D).double()
        )
        - INITS["lognormal"].draw(
            Source(moments(rank)), 0.0, torch.zeros(1), torch.zeros(1, D).double()
        )
        for rank in (D, 5)
    )
    assert float((short**2).sum()) == pytest.approx(float((full**2).sum()), rel=1e-10)


def test_lognormal_class_fits_the_averages() -> None:
    averages = moments().class_averages.log().view(K, C, -1).transpose(0, 1).flatten(1)
    mean, root = mean_and_root("lognormal-class", 0.5)
    torch.testing.assert_close(mean, averages.mean(1).repeat_interleave(9))
    expected = averages.var(1, correction=0) + S**2
    torch.testing.assert_close(root, expected.sqrt().repeat_interleave(9).diag())


@pytest.mark.parametrize("dataset", PAPER_FITS)
def test_lognormal_paper_prints_at_the_papers_sigma(dataset: str) -> None:
    mu, sigma = (torch.tensor(part).double() for part in PAPER_FITS[dataset])
    pixels = 12 // len(mu)
    z = torch.cat([torch.zeros(1, 12), torch.ones(1, 12)]).double()
    given = Source(moments(), PAPER_FITS[dataset])
    mean, one = lognormal_paper(given, 0.8, torch.zeros(2), z)
    torch.testing.assert_close(mean, mu.repeat_interleave(pixels), rtol=1e-7, atol=0)
    torch.testing.assert_close(one - mean, sigma.repeat_interleave(pixels), rtol=1e-7, atol=0)
    mean, one = lognormal_paper(given, 3.0, torch.zeros(2), z)
    expected = (sigma**2 - 0.8**2 + 3.0**2).sqrt().repeat_interleave(pixels)
    torch.testing.assert_close(one - mean, expected, rtol=1e-7, atol=0)


def test_lognormal_paper_refuses_without_a_fit() -> None:
    with pytest.raises(ValueError, match="the paper prints no terminal fit"):
        lognormal_paper(Source(moments()), 0.8, torch.zeros(1), torch.zeros(1, D))


@pytest.mark.parametrize("s", [0.0, 0.1, S])
def test_gaussian_start_has_the_covariance(s: float) -> None:
    y = images()[0].flatten(1).log()
    mean, root = mean_and_root("gaussian", 0.5, s)
    torch.testing.assert_close(mean, y.mean(0))
    expected = torch.cov(y.T) + s**2 * torch.eye(D).double()
    torch.testing.assert_close(root.T @ root, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("k", range(K))
def test_class_gaussian_start_has_the_class_covariance(k: int) -> None:
    x, labels = images()
    y = x[labels == k].flatten(1).log()
    mean, root = mean_and_root("class-gaussian", middle(k, K))
    torch.testing.assert_close(mean, y.mean(0))
    expected = torch.cov(y.T) + S**2 * torch.eye(D).double()
    torch.testing.assert_close(root.T @ root, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("i", [0, 1, 299, 599])
def test_forward_data_is_a_row_of_the_data(i: int) -> None:
    mean, root = mean_and_root("forward-data", middle(i, 600))
    assert torch.equal(mean, images()[0][i].flatten().log())
    torch.testing.assert_close(root, S * torch.eye(D).double())


@pytest.mark.parametrize("j", range(4))
def test_mixture_start_has_the_covariance_of_the_component(j: int) -> None:
    """Its own in five directions, that of all data in the others, and s²; by weight from u."""
    middles = (0.05, 0.2, 0.45, 0.8)
    mean, root = mean_and_root("mixture", middles[j])
    everything, (means, covariances) = moments().everything, inner_moments()
    leading = everything.basis[:5]
    torch.testing.assert_close(mean, everything.mean + means[j] @ leading)
    others = everything.basis[5:].T @ everything.variances[5:].diag() @ everything.basis[5:]
    expected = leading.T @ covariances[j] @ leading + others + S**2 * torch.eye(D).double()
    torch.testing.assert_close(root.T @ root, expected, rtol=1e-9, atol=1e-12)


def test_mixture_start_needs_a_fit() -> None:
    with pytest.raises(ValueError, match="no mixture was fitted"):
        INITS["mixture"].draw(Source(moments()), S, torch.zeros(1), torch.zeros(1, D).double())


def test_class_gaussians_have_the_bits_of_single_rows() -> None:
    """Rows of a class are drawn together, each as if it were alone."""
    given = in_float32(source())
    u, z = start_numbers(2, range(33), D)
    alone = [
        given.moments.classes[int(k)].at(S, row[None]) for k, row in zip(pick(u, K), z, strict=True)
    ]
    assert torch.equal(INITS["class-gaussian"].draw(given, S, u, z), torch.cat(alone))


# --- classes ---


def test_classes_of_a_mixture_are_those_of_its_components() -> None:
    """u picks the component, and what is left of it the class: their joint law is exact."""
    u = (torch.arange(4000) + 0.5) / 4000
    parts, classes = mixture().pick(u), INITS["mixture"].labels(source(), K, u)
    counts = torch.zeros(4, K).double()
    counts.index_put_((parts, classes), torch.ones(4000).double(), accumulate=True)
    expected = 4000 * torch.tensor(WEIGHTS).double()[:, None] * mixture().classes
    # an end of a part may lie within float32's rounding of a u: one sample on either side
    torch.testing.assert_close(counts, expected, rtol=0, atol=1)
    ends = INITS["mixture"].labels(source(), K, torch.tensor([0.0, 1 - 2**-24]))
    assert ends.tolist() == [0, 2]


def test_classes_of_forward_data_are_those_of_the_images() -> None:
    """A start of no noise is the image itself, whose label is known."""
    x, labels = images()
    u, z = start_numbers(1, range(50), D)
    drawn = INITS["forward-data"].draw(source(), 0.0, u, z.double())
    index = torch.cdist(drawn, x.flatten(1).log()).argmin(1)
    classes = INITS["forward-data"].labels(source(), K, u)
    assert torch.equal(classes, labels[index])
    assert not torch.equal(classes, pick(u, K))  # what an independent class would be


@pytest.mark.parametrize("name", ["class-average", "class-gaussian", "forward-data"])
@pytest.mark.parametrize("label", range(K))
def test_a_label_makes_every_sample_start_from_its_class(name: str, label: int) -> None:
    u, z = start_numbers(5, range(20), D)
    drawn = INITS[name].draw(source(), 0.0, u, z.double(), label=label)
    assert INITS[name].labels(source(), K, u, label=label).tolist() == [label] * 20
    if name == "forward-data":
        x, labels = images()
        rows = x[labels == label].flatten(1).log()
        assert torch.equal(drawn, rows[pick(u, len(rows))])
    else:
        middles = torch.full((20,), middle(label, K))
        assert torch.equal(drawn, INITS[name].draw(source(), 0.0, middles, z.double()))


def test_a_label_must_be_a_class() -> None:
    u = torch.zeros(1)
    with pytest.raises(ValueError, match="label = 3: the classes are 0 to 2"):
        chosen_class(source(), K, u, 3)
    with pytest.raises(ValueError, match="label = 3: no training image has it"):
        INITS["forward-data"].draw(source(), S, u, torch.zeros(1, D).double(), label=3)
    with pytest.raises(ValueError, match="labels of the training images are not known"):
        INITS["forward-data"].labels(source()._replace(labels=None), K, u)


# --- Gaussian ---


def dense(gaussian: Gaussian) -> Tensor:
    """The covariance written out, [d, d]."""
    kept = gaussian.basis.T @ gaussian.basis
    rest = gaussian.tail * (torch.eye(len(gaussian.mean)).double() - kept)
    return gaussian.basis.T @ gaussian.variances.diag() @ gaussian.basis + rest


@pytest.mark.parametrize("rank", [1, 5, D - 1, D, D + 10])
def test_fit_keeps_mean_trace_and_the_leading_directions(rank: int) -> None:
    y = images()[0].flatten(1).log()
    fitted, covariance = fit_gaussian(y, rank), torch.cov(y.T)
    kept = min(rank, D)
    torch.testing.assert_close(fitted.mean, y.mean(0))
    torch.testing.assert_close(fitted.basis @ fitted.basis.T, torch.eye(kept).double())
    torch.testing.assert_close(dense(fitted).trace(), covariance.trace())
    leading = torch.linalg.eigvalsh(covariance).flip(0)[:kept]
    torch.testing.assert_close(fitted.variances, leading)
    along = fitted.basis @ covariance @ fitted.basis.T
    torch.testing.assert_close(along, leading.diag(), rtol=1e-9, atol=1e-12)
    if rank >= D:
        torch.testing.assert_close(dense(fitted), covariance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rank", [5, D])
def test_draw_of_a_fit_has_its_covariance(rank: int) -> None:
    fitted = moments(rank).everything
    root = fitted.at(0.3, torch.eye(D).double()) - fitted.mean
    expected = dense(fitted) + 0.3**2 * torch.eye(D).double()
    torch.testing.assert_close(root.T @ root, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rank", [5, D])
def test_wiener_is_the_dense_formula(rank: int) -> None:
    """mean + Σ (Σ + s²)⁻¹ (y - mean), its error trace(s² Σ (Σ + s²)⁻¹)/d; s by row."""
    fitted = moments(rank).everything
    sigma, one = dense(fitted), torch.eye(D).double()
    y, s = 0.4 + normal((4, D), 5), torch.tensor([[0.01], [0.1], [0.8], [3.0]]).double()
    denoised, error = fitted.wiener(y, s), fitted.wiener_error(s)
    assert error.shape == (4, 1)
    for i in range(4):
        filtered = sigma @ torch.linalg.inv(sigma + s[i] ** 2 * one)
        expected = fitted.mean + filtered @ (y[i] - fitted.mean)
        torch.testing.assert_close(denoised[i], expected, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(error[i, 0], s[i, 0] ** 2 * filtered.trace() / D)


def test_moments_are_by_class() -> None:
    x, labels = images()
    m = moments()
    assert m.channels == C
    assert len(m.classes) == K
    assert m.class_averages.shape == (K, D)
    whole = sum((labels == k).sum() / 600 * m.classes[k].mean for k in range(K))
    torch.testing.assert_close(whole, m.everything.mean, rtol=1e-6, atol=0)  # float32 shares
    assert 1 <= float(m.class_averages.min()) <= float(m.class_averages.max()) <= 2
    torch.testing.assert_close(m.class_averages[1], x[labels == 1].mean(0).flatten())
