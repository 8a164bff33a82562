"""A cache of the features of a split and of their statistics, addressed by content.

Features are cached in pieces. A piece is a file, written whole or not at all, so a killed process
loses one piece of work at most. If several processes need the same piece, one computes it and the
others wait.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ablate.core.errors import UserError, first_line
from ablate.core.files import whole_file
from ablate.data.datasets import Dataset
from ablate.data.tensor_cache import cached_tensors
from ablate.metrics.extractors.extractor import Extractor, extract

SPLITS = ("train", "test")
NAME = re.compile(r"[\w-]+")
"""What every part of an address must match, since they form the name of a folder."""

PIECE = 1000
"""Images per file."""

FORMAT = 1
"""Version of the cache's layout."""


class Address(NamedTuple):
    """Everything that the features of a split depend on."""

    dataset: str
    dataset_hash: str
    split: str
    images: int
    extractor: str
    extractor_hash: str
    resize: str

    @property
    def key(self) -> str:
        """The name of the folder in the cache."""
        text = json.dumps([FORMAT, *self])
        return f"{self.dataset}-{self.split}-{self.extractor}-{_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def address_of(dataset: Dataset, split: str, extractor: Extractor) -> Address:
    """The address of a split's features by an extractor."""
    return Address(
        dataset=dataset.name,
        dataset_hash=dataset.hash(),
        split=split,
        images=len(_images(dataset, split)),
        extractor=extractor.name,
        extractor_hash=extractor.hash,
        resize=extractor.resize,
    )


def _images(dataset: Dataset, split: str) -> Tensor:
    """The images of the split `train` or `test`."""
    return {"train": dataset.train, "test": dataset.heldout}[split].pixels


def cached_features(
    dataset: Dataset,
    split: str,
    extractor: Extractor,
    folder: Path,
    progress: Callable[[int], None] = lambda images: None,
) -> Tensor:
    """The features of a split, [N, f], from the cache where it has them.

    progress: called with the number of images of each finished batch or piece.
    """
    images = _images(dataset, split)
    split_folder = folder / address_of(dataset, split, extractor).key
    split_folder.mkdir(parents=True, exist_ok=True)
    pieces = [
        _piece(_piece_path(split_folder, index), part, extractor, progress)
        for index, part in enumerate(images.split(PIECE))
    ]
    return torch.cat(pieces)


def missing_pieces(
    dataset: Dataset, split: str, extractor: Extractor, folder: Path
) -> dict[Path, Tensor]:
    """The images of each piece of a split that the cache has no file for, by the file."""
    split_folder = folder / address_of(dataset, split, extractor).key
    split_folder.mkdir(parents=True, exist_ok=True)
    pieces = enumerate(_images(dataset, split).split(PIECE))
    files = {_piece_path(split_folder, index): images for index, images in pieces}
    return {file: images for file, images in files.items() if not file.is_file()}


def is_cached(dataset: Dataset, split: str, extractor: Extractor, folder: Path) -> bool:
    """Whether the cache has a file for every piece of a split, so that there is little to do."""
    split_folder = folder / address_of(dataset, split, extractor).key
    pieces = -(-len(_images(dataset, split)) // PIECE)
    return all(_piece_path(split_folder, index).is_file() for index in range(pieces))


def _piece_path(split_folder: Path, index: int) -> Path:
    return split_folder / f"{index:05d}.safetensors"


def _piece(
    path: Path, images: Tensor, extractor: Extractor, progress: Callable[[int], None]
) -> Tensor:
    """The features of one piece, [n, f], from its file or computed."""
    computed = False

    def compute() -> dict[str, Tensor]:
        nonlocal computed
        computed = True
        return {"features": extract(extractor, images, progress)}

    tensors = cached_tensors(path, compute, lambda cached: len(cached["features"]) == len(images))
    if not computed:
        progress(len(images))
    return tensors["features"]


def export_features(features: Tensor, address: Address, out: Path) -> None:
    """Write features to a file that `import_features` reads on another machine."""
    with whole_file(out) as scratch:
        save_file({"features": features}, scratch, {"ablate": json.dumps(address._asdict())})


def read_address(path: Path) -> Address:
    """The address in a file that `export_features` wrote; its features are not read."""
    try:
        with safe_open(path, "pt") as file:
            address = Address(**json.loads((file.metadata() or {})["ablate"]))
    except (OSError, KeyError, TypeError, ValueError, SafetensorError, RecursionError) as error:
        raise UserError(f"features {path}: cannot be read ({first_line(error)})") from None
    if not all(NAME.fullmatch(str(part)) for part in address) or address.split not in SPLITS:
        raise UserError(f"features {path}: its address is not valid")
    return address


def read_features(path: Path) -> tuple[Address, Tensor]:
    """The address and the features, [N, f], in a file that `export_features` wrote."""
    address = read_address(path)
    try:
        with safe_open(path, "pt") as file:
            features = file.get_tensor("features")
    except (OSError, SafetensorError) as error:
        raise UserError(f"features {path}: cannot be read ({first_line(error)})") from None
    if features.ndim != 2 or not features.is_floating_point() or not features.isfinite().all():
        raise UserError(f"features {path}: not a table of finite numbers")
    if len(features) != address.images:
        raise UserError(
            f"features {path}: {len(features)} rows, but its address says {address.images}"
        )
    return address, features


def import_features(path: Path, folder: Path) -> Address:
    """Put an exported file into the cache, under the address that it states."""
    address, features = read_features(path)
    split_folder = folder / address.key
    split_folder.mkdir(parents=True, exist_ok=True)
    for index, part in enumerate(features.split(PIECE)):
        with whole_file(_piece_path(split_folder, index)) as scratch:
            save_file({"features": part.contiguous()}, scratch)
    for statistics in split_folder.glob("[!0-9.]*.safetensors"):  # of the replaced features
        statistics.unlink()
    return address
