"""Copies are found without the dataset: by codes of all training images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset, load
from ablate.experiment.showcase import setup_of_one
from ablate.generate.presets import few_step_settings
from ablate.metrics.copy_search import Neighbourhood, as_vectors
from ablate.metrics.extractors.extractor import Extractor, extract, find_extractor
from ablate.metrics.image_codes import ImageCodes, code_images, find_codes, fit_codes, write_codes
from ablate.models.bundle import ZOO, read_card, shipped
from tests.support.beds import generator

COPIES = 256


def planted(train: Tensor, mirrored: bool) -> Tensor:
    """Copies of training images, every other one mirrored if training mirrored images."""
    order = torch.randperm(len(train), generator=generator(0))[:COPIES]
    copies = train[order].clone()
    if mirrored:
        copies[::2] = copies[::2].flip(3)
    return copies


def check_search(codes: ImageCodes, extractor: Extractor, dataset: Dataset, mirrored: bool) -> None:
    """All planted copies are suspects. Of held-out images only those are that the search among the
    images themselves suspects, too: CIFAR-10 and Fashion-MNIST have some training images again in
    their test split. Among ten times as many samples C_T shows the copies: it is then
    -0.05 / √((n + m + 1)/(12 n m)) = -4.6 with m = 1,000 controls and n = 2,560, and varies by 1.
    """
    near = Neighbourhood(extractor, None, None, mirrored, len(dataset.train.pixels), codes=codes)
    copies, fresh = planted(dataset.train.pixels, mirrored), dataset.heldout.pixels[1000:]
    found = near.find(copies)
    assert set(found) == {"feature", "pixel"}
    for each in found.values():
        assert len(each.suspects) == COPIES
        assert each.searched == 1
    held = fresh[: 9 * COPIES]
    again = twice(dataset, extractor, mirrored, held)
    assert len(again) <= 0.002 * len(held)
    for each in near.find(held).values():
        assert set(each.suspects) <= again
        assert each.verdict is not None
        assert abs(each.verdict.c_t) < 3
    if len(held) < 9 * COPIES:
        return
    for each in near.find(torch.cat([copies, held])).values():
        assert each.verdict is not None
        assert each.verdict.c_t < -3
        assert set(each.suspects) - {COPIES + i for i in again} == set(range(COPIES))


def twice(dataset: Dataset, extractor: Extractor, mirrored: bool, images: Tensor) -> set[int]:
    """Which images the training set has, too, by their own pixels or features."""
    exact = Neighbourhood(extractor, None, dataset, mirrored, len(dataset.train.pixels))
    return {i for each in exact.find(images).values() for i in each.suspects}


@pytest.fixture(scope="module")
def small(digits: Dataset) -> Dataset:
    """The digits with held-out images behind the 1,000 that serve as controls: digits have 359, so
    half of these are controls, three times over."""
    pixels, labels = digits.heldout
    order = torch.cat([torch.arange(0, 359, 2).repeat(6)[:1000], torch.arange(1, 359, 2)])
    return digits._replace(
        heldout=digits.heldout._replace(pixels=pixels[order], labels=labels[order])
    )


@pytest.mark.parametrize("mirrored", [False, True])
def test_copies_are_found_by_their_codes(
    mirrored: bool, small: Dataset, extractor: Extractor, tmp_path: Path
) -> None:
    """Written and read again."""
    path = tmp_path / "digits-images.safetensors"
    write_codes(path, code_images(small, extractor), small, extractor)
    codes = find_codes("digits", small.hash(), extractor.hash, tmp_path)
    assert codes is not None
    check_search(codes, extractor, small, mirrored)


def test_codes_of_other_images_or_another_extractor_are_not_used(
    small: Dataset, extractor: Extractor, tmp_path: Path
) -> None:
    path = tmp_path / "digits-images.safetensors"
    write_codes(path, code_images(small, extractor), small, extractor)
    assert find_codes("digits", "another", extractor.hash, tmp_path) is None
    assert find_codes("digits", small.hash(), "another", tmp_path) is None
    assert find_codes("gratings", small.hash(), extractor.hash, tmp_path) is None
    path.write_bytes(b"no tensors")
    with pytest.raises(UserError, match=r"image codes .* cannot be read"):
        find_codes("digits", small.hash(), extractor.hash, tmp_path)


def test_rounding_is_small() -> None:
    """A code is off by half a step, the largest coordinate being 127 steps; with all directions the
    vectors come back up to that and the basis' float16, 5e-4 of each of 8 products."""
    train = torch.randn(500, 8, generator=generator(1))
    codes = fit_codes(8, train, train[:5], train[5:9])
    off = (codes.coordinates() - codes.project(train)).abs()
    assert bool((off <= 0.5 * codes.scale * (1 + 1e-4)).all())
    assert bool((codes.train.abs().amax(0) == 127).all())
    half_steps = 0.5 * float(codes.scale.norm())
    errors = (codes.vectors(torch.arange(500)) - train).norm(dim=1)
    assert float(errors.max()) < half_steps + 2 * 8**0.5 * 5e-4 * float(train.norm(dim=1).max())
    assert codes.heldout.shape == (5, 8)
    assert codes.mirrored.shape == (4, 8)


def test_a_panel_shows_thumbnails(small: Dataset, extractor: Extractor) -> None:
    """Next to a copy stands its blurred original: nearer to it than to other images."""
    codes = code_images(small, extractor)
    near = Neighbourhood(extractor, None, None, False, len(small.train.pixels), codes=codes)
    copies = planted(small.train.pixels, False)[:8]
    panel = near.panel(copies, near.find(copies)).float()  # [rows, columns, C, H, W]
    assert panel.shape[:2] == (8, 11)
    off = (panel[:, 1] - panel[:, 0]).flatten(1).norm(dim=1)
    apart = torch.cdist(panel[:, 0].flatten(1), panel[:, 0].flatten(1))
    assert bool((off < 0.3 * apart[apart > 0].min()).all())


@pytest.mark.parametrize("name", ["mnist", "kmnist", "fashion", "cifar10"])
def test_shipped_codes_are_complete(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study of a shipped bundle searches the whole training set without the dataset."""
    monkeypatch.setenv("ABLATE_DATA", str(tmp_path))
    card = read_card(shipped()[name])
    settings = few_step_settings(5, (card.s_min, card.s_max))
    setup = setup_of_one(Workspace(tmp_path), name, settings, 64, 0, "cpu")
    assert setup.neighbourhood.dataset is None
    assert [space.name for space in setup.neighbourhood.spaces] == ["feature", "pixel"]
    for space in setup.neighbourhood.spaces:
        assert space.searched == 1
        assert "int8" in str(space.protocol()["compressed"])


@pytest.mark.parametrize("name", ["mnist", "kmnist", "fashion", "cifar10"])
def test_shipped_codes_find_copies(name: str) -> None:
    """Where the dataset is installed to plant them from; skipped elsewhere."""
    try:
        dataset = load(name)
    except UserError as error:
        pytest.skip(str(error))
    extractor = find_extractor(name, ZOO)
    codes = find_codes(name, dataset.hash(), extractor.hash, ZOO)
    assert codes is not None
    check_search(codes, extractor, dataset, mirrored=name == "cifar10")


def test_c_t_shows_copies_where_few_images_are_held_out() -> None:
    """Kuzushiji-MNIST has 2,000, half of them controls. Of 1,111 samples with 111 copies C_T is
    -0.05 / √((n + m + 1)/(12 n m)) = -4.0 and varies by 1: with the controls that ship it is -2.2
    and -2.5. Which half has the nearer images is chance, and turns round when the halves do, so
    the mean over both is what copies alone do."""
    try:
        dataset = load("kmnist")
    except UserError as error:
        pytest.skip(str(error))
    extractor = find_extractor("kmnist", ZOO)
    codes = find_codes("kmnist", dataset.hash(), extractor.hash, ZOO)
    assert codes is not None
    copies, (one, other) = (
        planted(dataset.train.pixels, False)[:111],
        dataset.heldout.pixels.split(1000),
    )
    turns = [(one, other), (other, one)]
    found = [
        c_t_of(codes, extractor, torch.cat([copies, held]), control) for control, held in turns
    ]
    without = [c_t_of(codes, extractor, held, control) for control, held in turns]
    for space in ("feature", "pixel"):
        assert sum(each[space] for each in found) / 2 < -3
        assert abs(sum(each[space] for each in without) / 2) < 1e-6


def c_t_of(
    codes: ImageCodes, extractor: Extractor, images: Tensor, control: Tensor
) -> dict[str, float]:
    """C_T in each space, with other held-out images as controls."""
    feature = codes.feature._replace(heldout=codes.feature.project(extract(extractor, control)))
    pixel = codes.pixel._replace(heldout=codes.pixel.project(as_vectors(control)))
    turned = codes._replace(feature=feature, pixel=pixel)
    near = Neighbourhood(extractor, None, None, False, 8000, codes=turned)
    verdicts = {name: each.verdict for name, each in near.find(images).items()}
    return {name: each.c_t for name, each in verdicts.items() if each is not None}
