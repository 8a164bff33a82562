"""Features of a dataset's real images, by the extractor that a study measures in.

A bundle carries those by the dataset's small classifier. Those by the Inception come from a file
beside the bundle, or from the dataset through the cache, where they are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset
from ablate.data.tensor_cache import cache_folder
from ablate.metrics.extractors.extractor import Extractor, find_extractor
from ablate.metrics.extractors.inception import inception
from ablate.metrics.feature_cache import (
    address_of,
    cached_features,
    is_cached,
    read_address,
    read_features,
)
from ablate.models.bundle import ZOO, Bundle, Card

SPLITS = {"train": "train", "test": "heldout"}
"""Names of the splits: in study files and addresses -> in bundles."""

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""(what is done, number of images) -> a bar, which gives a function to call with images done."""


@contextmanager
def no_bar(what: str, images: int) -> Iterator[Callable[[int], None]]:
    """A bar that shows nothing."""
    yield lambda images: None


class RealFeatures(NamedTuple):
    """Features of training and held-out images by one extractor."""

    extractor: Extractor
    splits: dict[str, Tensor]  # train and heldout -> [N, f]; one may be missing
    folders: dict[str, Path]  # split -> where the statistics of its features are cached
    pending: int = 0  # images whose features are made up, because a plan computes none


class Surroundings(NamedTuple):
    """Where the features of a bundle's images may come from, and how they are computed."""

    path: Path  # of the bundle
    card: Card
    dataset: Dataset | None  # the images, if they are on this machine
    workspace: Workspace
    device: str = "cpu"
    bar: Bar = no_bar
    compute: bool = True  # False for a plan: features that are not cached are made up


def by_small_classifier(bundle: Bundle, workspace: Workspace) -> RealFeatures:
    """The features that the bundle carries."""
    extractor = find_extractor(bundle.card.dataset, workspace.bundles, bundle.card.extractor)
    return RealFeatures(extractor, bundle.features, {})


def by_inception(around: Surroundings, needed: str) -> RealFeatures:
    """Inception features of the split that is needed, an error if there are none, and those of the
    other split if they need not be computed."""
    extractor = inception(device=around.device)
    found = {}
    for split, name in SPLITS.items():
        if (file := _file_of(around, split)) is not None:
            found[name] = _from_file(file, around, split, extractor)
        elif around.dataset is not None and (
            split == needed or is_cached(around.dataset, split, extractor, cache_folder())
        ):
            found[name] = _from_dataset(around.dataset, around, split, extractor)
        elif split == needed:
            raise UserError(_how_to_get(around, split))
    return RealFeatures(
        extractor,
        {name: each.features for name, each in found.items()},
        {name: each.folder for name, each in found.items() if each.folder is not None},
        sum(len(each.features) for each in found.values() if each.folder is None),
    )


class _Split(NamedTuple):
    features: Tensor
    folder: Path | None  # of cached statistics; None if the features are made up


def _from_dataset(
    dataset: Dataset, around: Surroundings, split: str, extractor: Extractor
) -> _Split:
    """The features of a split from the cache, computed where it lacks them."""
    images = {"train": dataset.train, "test": dataset.heldout}[split].pixels
    cached = is_cached(dataset, split, extractor, cache_folder())
    if not cached and not around.compute:
        random = torch.Generator().manual_seed(0)
        return _Split(torch.randn(len(images), extractor.net.width, generator=random), None)
    bar = no_bar if cached else around.bar
    with bar(f"features of {dataset.name}/{split} by {extractor.name}", len(images)) as advance:
        features = cached_features(dataset, split, extractor, cache_folder(), advance)
    return _Split(features, cache_folder() / address_of(dataset, split, extractor).key)


def _file_of(around: Surroundings, split: str) -> Path | None:
    """The file beside the bundle that has a split's features. One without a split in its name has
    those that it says it has."""
    stem = f"{around.path.stem}-inception"
    for folder in dict.fromkeys([around.path.parent, around.workspace.bundles, ZOO]):
        named, plain = folder / f"{stem}-{split}.safetensors", folder / f"{stem}.safetensors"
        if named.is_file():
            return named
        if plain.is_file() and read_address(plain).split == split:
            return plain
    return None


def _from_file(path: Path, around: Surroundings, split: str, extractor: Extractor) -> _Split:
    """The features in a file, if they are those of the bundle's dataset by this extractor."""
    address, features = read_features(path)
    expected = {
        "dataset": around.card.dataset,
        "dataset_hash": around.card.dataset_hash,
        "split": split,
        "extractor_hash": extractor.hash,
        "resize": extractor.resize,
    }
    for field, value in expected.items():
        if (theirs := getattr(address, field)) != value:
            raise UserError(f"features {path}: {field} is {theirs}, not {value}")
    folder = cache_folder() / address.key
    folder.mkdir(parents=True, exist_ok=True)
    return _Split(features, folder)


def _how_to_get(around: Surroundings, split: str) -> str:
    """What to do about features that are missing, in one line."""
    name = around.card.dataset
    return (
        f"inception: features of {name}/{split} are not on this machine; run: ablate data get"
        f" {name}, or put into {around.workspace.bundles} what another machine makes by: ablate"
        f" features compute {name}/{split} --out {around.path.stem}-inception-{split}.safetensors"
        '; extractor = "small" in the study file does without'
    )
