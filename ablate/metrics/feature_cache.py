"""Features of a whole split and their statistics, computed once and kept: content-addressed.

Features are kept piece by piece. A piece is a file, written whole or not at all, so a kill loses
one piece of work, and any number of processes may ask for the same: one computes, the others wait.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from ablate.core.errors import UserError, first_line
from ablate.core.files import waiting, whole_file
from ablate.data.datasets import Dataset
from ablate.metrics.extractors.extractor import Extractor, extract

SPLITS = ("train", "test")
NAME = re.compile(r"[\w-]+")
"""Of all parts of an address: they make a folder's name."""

Tensors = dict[str, Tensor]

PIECE = 1000
FORMAT = 1


def cache_folder() -> Path:
    return Path(os.environ.get("ABLATE_CACHE", "~/.cache/ablate/features")).expanduser()


class Address(NamedTuple):
    """All that decides the features of a split."""

    dataset: str
    dataset_hash: str
    split: str
    images: int
    extractor: str
    extractor_hash: str
    resize: str

    @property
    def key(self) -> str:
        text = json.dumps([FORMAT, *self])
        return f"{self.dataset}-{self.split}-{self.extractor}-{_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def address_of(dataset: Dataset, split: str, extractor: Extractor) -> Address:
    count = len(_images(dataset, split))
    own = (extractor.name, extractor.hash, extractor.resize)
    return Address(dataset.name, dataset.hash(), split, count, *own)


def _images(dataset: Dataset, split: str) -> Tensor:
    """Called `train` and `test`, as the field does."""
    return {"train": dataset.train, "test": dataset.heldout}[split].pixels


def cached_features(
    dataset: Dataset,
    split: str,
    extractor: Extractor,
    folder: Path,
    progress: Callable[[int], None] = lambda images: None,
) -> Tensor:
    """[N, f], from the cache as far as they are there; `progress` is told of images done."""
    images = _images(dataset, split)
    home = folder / address_of(dataset, split, extractor).key
    home.mkdir(parents=True, exist_ok=True)
    pieces = []
    for index, part in enumerate(images.split(PIECE)):
        pieces.append(_piece(home / f"{index:05d}.safetensors", part, extractor, progress))
    return torch.cat(pieces)


def _piece(
    path: Path, images: Tensor, extractor: Extractor, progress: Callable[[int], None]
) -> Tensor:
    computed = False

    def compute() -> dict[str, Tensor]:
        nonlocal computed
        computed = True
        return {"features": extract(extractor, images, progress)}

    found = kept(path, compute, lambda tensors: len(tensors["features"]) == len(images))
    if not computed:
        progress(len(images))
    return found["features"]


def kept(
    path: Path, compute: Callable[[], Tensors], right: Callable[[Tensors], bool] = lambda _: True
) -> Tensors:
    """What `path` holds, if it is there, whole and `right`; else what `compute` gives, kept there.

    Of any number of processes that ask at once, one computes and the others wait for it.
    """
    if (found := _read(path, right)) is not None:
        return found
    with waiting(path.with_suffix(".lock")):
        if (found := _read(path, right)) is not None:  # while this one waited
            return found
        computed = compute()
        with whole_file(path) as scratch:
            save_file({name: each.contiguous() for name, each in computed.items()}, scratch)
        return computed


def _read(path: Path, right: Callable[[Tensors], bool]) -> Tensors | None:
    """None if it is not there or not what it should be."""
    try:
        found: Tensors = load_file(path)
        return found if right(found) else None
    except (OSError, KeyError, SafetensorError):
        return None


def export_features(features: Tensor, address: Address, out: Path) -> None:
    """One file that `import_features` takes on another machine."""
    with whole_file(out) as scratch:
        save_file({"features": features}, scratch, {"ablate": json.dumps(address._asdict())})


def import_features(path: Path, folder: Path) -> Address:
    """Into the cache, under what the file says it is."""
    try:
        with safe_open(path, "pt") as file:
            address = Address(**json.loads((file.metadata() or {})["ablate"]))
            features = file.get_tensor("features")
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise UserError(f"features {path}: cannot be read ({first_line(error)})") from None
    if not all(NAME.fullmatch(str(part)) for part in address) or address.split not in SPLITS:
        raise UserError(f"features {path}: its card is not one of ablate's")
    if features.ndim != 2 or not features.is_floating_point() or not features.isfinite().all():
        raise UserError(f"features {path}: not a table of finite numbers")
    if len(features) != address.images:
        raise UserError(f"features {path}: {len(features)} rows, its card says {address.images}")
    home = folder / address.key
    home.mkdir(parents=True, exist_ok=True)
    for index, part in enumerate(features.split(PIECE)):
        with whole_file(home / f"{index:05d}.safetensors") as scratch:
            save_file({"features": part.contiguous()}, scratch)
    for statistics in home.glob("[!0-9.]*.safetensors"):  # of features that were here before
        statistics.unlink()
    return address
