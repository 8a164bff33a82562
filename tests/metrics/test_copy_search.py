"""The search for copies among real images: it finds all of them, or says that it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset
from ablate.experiment.prepare import training_images
from ablate.metrics.copies import Copies
from ablate.metrics.copy_search import Neighbourhood
from ablate.metrics.extractors.extractor import Extractor, extract
from ablate.models.bundle import available_bundles, read, read_card, shipped
from tests.support.beds import generator

COPIES = 256


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))


def split(digits: Dataset) -> tuple[Dataset, torch.Tensor]:
    """The digits with half of the held-out images as controls, and the other half to look at."""
    pixels, labels = digits.heldout
    heldout = digits.heldout._replace(pixels=pixels[::2], labels=labels[::2])
    return digits._replace(heldout=heldout), pixels[1::2]


def c_t(found: Copies) -> float:
    assert found.verdict is not None
    return found.verdict.c_t


@pytest.mark.parametrize("mirrored", [False, True])
def test_exact_copies_are_all_suspects_and_c_t_shows_them(
    mirrored: bool, digits: Dataset, extractor: Extractor
) -> None:
    """Every other copy is mirrored where training mirrored images."""
    dataset, fresh = split(digits)
    near = Neighbourhood(extractor, None, dataset, mirrored, len(dataset.train.pixels))
    order = torch.randperm(len(dataset.train.pixels), generator=generator(0))[:COPIES]
    copies = dataset.train.pixels[order].clone()
    if mirrored:
        copies[::2] = copies[::2].flip(3)
    for found in near.find(torch.cat([copies, fresh])).values():
        assert set(range(COPIES)) == set(found.suspects)
        assert c_t(found) < -3
    for found in near.find(copies).values():
        assert len(found.suspects) == COPIES
        assert c_t(found) < -3
        assert found.verdict is not None
        assert found.verdict.authentic.value == 0
        assert found.verdict.authentic_heldout.value > 0.4
        assert found.searched == 1
    for found in near.find(fresh).values():  # held-out images are no copies
        assert found.suspects == []
        assert abs(c_t(found)) < 3


def test_mirrored_copies_alone_show_too(digits: Dataset, extractor: Extractor) -> None:
    dataset, _ = split(digits)
    near = Neighbourhood(extractor, None, dataset, True, len(dataset.train.pixels))
    for found in near.find(dataset.train.pixels[:COPIES].flip(3)).values():
        assert len(found.suspects) == COPIES
        assert c_t(found) < -3


def test_with_a_part_of_the_training_images_there_is_no_c_t(
    digits: Dataset, extractor: Extractor
) -> None:
    """As a bundle has them: 4 % of the images, so that 4 % of the copies are found."""
    chosen = torch.randperm(len(digits.train.pixels), generator=generator(1))[:58]
    train = extract(extractor, digits.train.pixels[chosen])
    heldout = extract(extractor, digits.heldout.pixels)
    near = Neighbourhood(extractor, (train, heldout), None, False, len(digits.train.pixels))
    (found,) = near.find(digits.train.pixels).values()
    assert set(found.suspects) >= set(chosen.tolist())
    assert len(found.suspects) < 100
    assert found.searched == pytest.approx(0.04, abs=0.001)
    assert found.verdict is None
    assert not any("c_t" in name or "authentic" in name for name in found.values("feature"))


@pytest.mark.parametrize(
    ("name", "searched", "total"),
    [
        ("cifar10", 2000, 50_000),
        ("fashion", 5000, 60_000),
        ("mnist", 5000, 60_000),
        ("kmnist", 5000, 8000),  # trained on a part of the test images, as its card's note says
        ("digits", 1438, 1438),
    ],
)
def test_shipped_bundles_know_the_size_of_their_training_set(
    name: str, searched: int, total: int
) -> None:
    """Cards say it. Of those that do not, the registry knows it by the dataset's hash."""
    bundle = read(shipped()[name])
    assert len(bundle.features["train"]) == searched
    assert training_images(bundle.card, None) == total
    silent = bundle.card.model_copy(update={"training_images": None})
    assert training_images(silent, None) == total
    other = silent.model_copy(update={"dataset_hash": "0" * 16})
    assert training_images(other, None) is None
    told = other.model_copy(update={"training_images": 123})
    assert training_images(told, None) == 123


def test_a_card_says_the_size_of_the_training_set(tiny_bundle: Path, digits: Dataset) -> None:
    assert read_card(tiny_bundle).training_images == len(digits.train.pixels) == 1438


def test_files_beside_bundles_are_no_bundles(tmp_path: Path, tiny_bundle: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.bundles.mkdir(parents=True)
    for ending in ("", "-features", "-inception", "-inception-train", "-inception-test"):
        (workspace.bundles / f"mine{ending}.safetensors").write_bytes(tiny_bundle.read_bytes())
    assert set(available_bundles(workspace)) - set(shipped()) == {"mine"}
