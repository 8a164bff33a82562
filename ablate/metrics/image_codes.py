"""All training images of a dataset in a few bytes each, so that copies are found without it.

Features and pixels are each projected on their leading principal directions and rounded to int8.
Codes of pixels are images, too: projected back, they are blurred thumbnails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.files import whole_file
from ablate.data.datasets import Dataset
from ablate.metrics.extractors.extractor import Extractor, extract
from ablate.models.bundle import ZOO
from ablate.models.digests import digest, require_listed

RANKS, MOST_BYTES = (64, 32), 3_300_000
"""Principal directions to keep: the most of these with so many bytes for all training images."""

CONTROLS = 1000
"""Held-out images whose coordinates are kept, plain and mirrored."""

STEPS = 127
"""Largest int8 code. The largest coordinate of a direction has it, so that a coordinate is rounded
by 1/254 of that at most: some 1 % of its spread, where neighbours differ by about all of it."""


class Codes(NamedTuple):
    """Vectors of all training images, rounded, and of some held-out ones."""

    mean: Tensor  # [d]
    basis: Tensor  # principal directions as rows, [k, d]
    scale: Tensor  # of one step of a code, [k]
    train: Tensor  # int8, [M, k]
    heldout: Tensor  # coordinates, [H, k]
    mirrored: Tensor  # those of the mirrored held-out images, [H, k]

    def project(self, vectors: Tensor) -> Tensor:
        """Coordinates of vectors, [N, d] -> [N, k]."""
        return (vectors - self.mean) @ self.basis.T

    def coordinates(self) -> Tensor:
        """Those of the training images, [M, k]."""
        return self.train.float() * self.scale

    def vectors(self, which: Tensor) -> Tensor:
        """Training images projected back, [..., d]."""
        return self.mean + (self.train[which].float() * self.scale) @ self.basis


class ImageCodes(NamedTuple):
    """The codes of a dataset in features and in pixels."""

    feature: Codes
    pixel: Codes


def fit_codes(rank: int, train: Tensor, heldout: Tensor, mirrored: Tensor) -> Codes:
    """Codes of vectors of training images, [M, d], and of held-out ones, [H, d]."""
    mean = train.double().mean(0)
    centred = train.double() - mean
    _, vectors = torch.linalg.eigh(centred.T @ centred)  # ascending
    basis = vectors[:, -rank:].flip(1).T.contiguous().half()  # as it is stored
    along = centred @ basis.double().T
    scale = (along.abs().amax(0) / STEPS).float().clamp_min(1e-12)
    rounded = (along / scale).round().to(torch.int8)
    codes = Codes(mean.float(), basis.float(), scale, rounded, heldout, mirrored)
    return codes._replace(heldout=codes.project(heldout), mirrored=codes.project(mirrored))


def code_images(dataset: Dataset, extractor: Extractor) -> ImageCodes:
    """The codes of a dataset's images."""
    images = len(dataset.train.pixels)
    rank = next((rank for rank in RANKS if rank * images <= MOST_BYTES), RANKS[-1])
    heldout = dataset.heldout.pixels[:CONTROLS]
    sides = (dataset.train.pixels, heldout, heldout.flip(3))
    features = [extract(extractor, side) for side in sides]
    pixels = [side.flatten(1).float() for side in sides]
    return ImageCodes(fit_codes(rank, *features), fit_codes(rank, *pixels))


def write_codes(path: Path, codes: ImageCodes, dataset: Dataset, extractor: Extractor) -> None:
    """Write codes to a safetensors file, with the hashes of what they were made of."""
    tensors = {
        f"{space}.{name}": (part.half() if name in ("basis", "heldout", "mirrored") else part)
        for space, each in codes._asdict().items()
        for name, part in each._asdict().items()
    }
    card = {"dataset_hash": dataset.hash(), "extractor": extractor.hash}
    with whole_file(path) as scratch:
        tensors = {name: part.contiguous() for name, part in tensors.items()}
        save_file(tensors, scratch, {"ablate": json.dumps(card)})


def find_codes(dataset: str, dataset_hash: str, extractor: str, folder: Path) -> ImageCodes | None:
    """The codes of a dataset by these hashes: in `folder`, else shipped; None if there are none."""
    name = f"{dataset}-images.safetensors"
    for path in (folder / name, ZOO / name):
        if path.is_file() and _card(path) == {"dataset_hash": dataset_hash, "extractor": extractor}:
            return _read(path)
    return None


def _card(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, "pt") as file:
            card: dict[str, str] = json.loads((file.metadata() or {})["ablate"])
            return card
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        raise UserError(f"image codes {path}: cannot be read ({type(error).__name__})") from None


def _read(path: Path) -> ImageCodes:
    require_listed(path, digest(path))
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    try:
        spaces = [
            Codes(
                **{
                    name: part if name == "train" else part.float()
                    for name in Codes._fields
                    for part in [tensors[f"{space}.{name}"]]
                }
            )
            for space in ImageCodes._fields
        ]
    except KeyError as error:
        raise UserError(f"image codes {path}: {error.args[0]} is missing") from None
    return ImageCodes(*spaces)
