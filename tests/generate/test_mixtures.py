"""Mixtures fitted to images: moments that a fit keeps, the cache, and what is refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data import datasets
from ablate.data.datasets import Dataset, Images
from ablate.diffusion.mixture import Mixture
from ablate.diffusion.moments import Gaussian, fit_gaussian
from ablate.generate.mixtures import (
    DIRECTIONS,
    Mixtures,
    coordinates,
    fit_mixture,
    in_log_space,
    mixture_of,
)
from ablate.models import bundle as bundles


@cache
def everything() -> Gaussian:
    return fit_gaussian(in_log_space(datasets.load("digits").train.pixels), 64)


@cache
def fitted(components: int) -> Mixture:
    return fit_mixture(datasets.load("digits").train, everything(), components)


def inner_covariances(mixture: Mixture) -> Tensor:
    """Covariances along the leading directions, written out, [k, p, p]."""
    return mixture.rotations.mT @ torch.diag_embed(mixture.variances) @ mixture.rotations


@pytest.mark.parametrize("components", [1, 4, 10])
def test_a_fit_has_the_mean_and_covariance_of_the_images(components: int, digits: Dataset) -> None:
    """Whatever the components are, a step of expectation maximisation ends with these moments.

    scikit-learn adds 1e-6 to variances. Numbers are stored as float32, and a sum of squares of
    size v rounds by some 1e-6 v; v is below 0.5 here.
    """
    mixture = fitted(components)
    along = coordinates(digits.train.pixels, everything()).float()
    torch.testing.assert_close(mixture.weights @ mixture.means, along.mean(0), rtol=0, atol=1e-6)
    second = inner_covariances(mixture) + mixture.means[:, :, None] * mixture.means[:, None]
    whole = (mixture.weights[:, None, None] * second).sum(0)
    expected = along.T @ along / len(along)
    torch.testing.assert_close(whole, expected, rtol=0, atol=3e-6)


def test_components_differ_in_the_leading_directions_only(digits: Dataset) -> None:
    one, other = (fitted(4).component(j, everything()) for j in (0, 1))
    rest = everything().basis[DIRECTIONS:]
    torch.testing.assert_close(rest @ one.mean, rest @ everything().mean, rtol=0, atol=1e-6)
    assert not torch.allclose(one.mean, other.mean, atol=0.01)
    for part in (one, other):
        eye = torch.eye(64).double()
        torch.testing.assert_close(part.basis @ part.basis.T, eye, rtol=0, atol=1e-6)
        assert torch.equal(part.variances[DIRECTIONS:], everything().variances[DIRECTIONS:])


def test_a_fit_repeats_bit_by_bit(digits: Dataset) -> None:
    again = fit_mixture(digits.train, everything(), 4)
    assert all(torch.equal(a, b) for a, b in zip(again, fitted(4), strict=True))


def test_labels_change_the_shares_of_classes_alone(digits: Dataset) -> None:
    shuffled = Images(digits.train.pixels, digits.train.labels.flip(0))
    other = fit_mixture(shuffled, everything(), 4)
    for field in ("weights", "means", "rotations", "variances"):
        assert torch.equal(getattr(other, field), getattr(fitted(4), field))
    assert not torch.equal(other.classes, fitted(4).classes)


def test_shares_of_classes_add_up_to_the_data(digits: Dataset) -> None:
    mixture = fitted(10)
    torch.testing.assert_close(mixture.classes.sum(1), torch.ones(10))
    shares = digits.train.labels.bincount() / len(digits.train.labels)
    torch.testing.assert_close(mixture.weights @ mixture.classes, shares, rtol=0, atol=1e-5)
    # components find digits without labels: drawn at random the largest share would be near 0.1
    assert float(mixture.weights @ mixture.classes.amax(1)) > 0.5


def test_too_few_images_are_refused(digits: Dataset) -> None:
    with pytest.raises(UserError, match="components = 23: 1438 training images are enough for 22"):
        fit_mixture(digits.train, everything(), 23)


# --- where a fit comes from ---


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bundles.Bundle:
    """A bundle that contains no mixture, and an empty cache."""
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path))
    bundle = bundles.read(bundles.shipped()["digits"])
    return bundle._replace(mixture=None)


def missing(name: str) -> Dataset:
    raise UserError(f"dataset {name}: not here")


def test_a_fit_is_cached(shipped: bundles.Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Mixtures(shipped)(3)
    monkeypatch.setattr(datasets, "load", missing)
    again = Mixtures(shipped)(3)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    with pytest.raises(UserError, match="dataset digits: not here"):
        Mixtures(shipped)(4)
    card = shipped.card.model_copy(update={"dataset_hash": "other"})
    with pytest.raises(UserError, match="dataset digits: not here"):
        Mixtures(shipped._replace(card=card))(3)


def test_other_images_than_the_bundles_are_refused(shipped: bundles.Bundle) -> None:
    card = shipped.card.model_copy(update={"dataset_hash": "other"})
    with pytest.raises(UserError, match="not the images of bundle digits"):
        Mixtures(shipped._replace(card=card))(3)


def test_a_bundle_contains_a_mixture_with_a_component_for_each_class(
    tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path))
    bundle = bundles.read(tiny_bundle)
    monkeypatch.setattr(datasets, "load", missing)
    stored = Mixtures(bundle)(10)
    assert stored is bundle.mixture
    assert stored.means.shape == (10, DIRECTIONS)
    size = sum(part.numel() for part in stored) * 4
    assert size < 50_000
    with pytest.raises(UserError, match="dataset digits: not here"):
        Mixtures(bundle)(3)


def test_bundles_of_few_images_contain_none(digits: Dataset, tiny_bundle: Path) -> None:
    few = digits._replace(train=Images(digits.train.pixels[:600], digits.train.labels[:600]))
    assert mixture_of(few, bundles.read(tiny_bundle).moments) is None


def test_bundles_without_a_mixture_are_read() -> None:
    """Those that were shipped before bundles had one; newer ones have."""
    having = {name: bundles.read(path).mixture for name, path in bundles.shipped().items()}
    assert {name for name, mixture in having.items() if mixture is None} == {"digits"}
