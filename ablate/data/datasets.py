"""Datasets: uint8 images in a training and a held-out split, from files on this machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.registry import resolved
from ablate.core.unknown_names import unknown
from ablate.data.registry import DATASETS


class Images(NamedTuple):
    """The images of one split."""

    pixels: Tensor  # uint8, [N, C, H, W]
    labels: Tensor  # int64, [N]


class Dataset(NamedTuple):
    """A dataset in memory."""

    name: str
    train: Images
    heldout: Images
    licence: str
    note: str = ""  # what readers of a figure must know about the splits

    @property
    def shape(self) -> tuple[int, int, int]:
        return tuple(self.train.pixels.shape[1:])  # type: ignore[return-value]

    def hash(self) -> str:
        """The hash of every pixel and label, in order."""
        digest = hashlib.sha256()
        for part in (*self.train, *self.heldout):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()[:16]


def to_unit_interval_plus_one(pixels: Tensor) -> Tensor:
    """Pixels, uint8 -> x = 1 + pixel/255, in [1, 2]."""
    return 1 + pixels.float() / 255


def to_pixels(x: Tensor) -> tuple[Tensor, Tensor]:
    """x -> (uint8, share of each image's pixels that were clamped to [1, 2], [B])."""
    clamped = ((x < 1) | (x > 2)).flatten(1).double().mean(1)
    return ((x.clamp(1, 2) - 1) * 255).round().to(torch.uint8), clamped


def mirrored(images: Tensor, which: Tensor) -> Tensor:
    """Mirror those of the images, [B, C, H, W], that `which`, [B], selects, left to right."""
    return torch.where(which.to(images.device)[:, None, None, None], images.flip(3), images)


def data_folder() -> Path:
    """The folder of datasets, in torchvision's layout: ABLATE_DATA, or one in the user's cache."""
    return Path(os.environ.get("ABLATE_DATA", "~/.cache/ablate/data")).expanduser()


def state(name: str) -> str:
    """Describe in a few words how many images of a dataset this machine has."""
    try:
        dataset = load(name)
    except UserError:
        return "not here"
    count = (
        f"{len(dataset.train.labels)} training and {len(dataset.heldout.labels)} held-out images"
    )
    return f"{count}; {dataset.note}" if dataset.note else count


def download(name: str) -> None:
    """Download a dataset through torchvision into the data folder."""
    from torchvision import datasets

    download_by = DATASETS[name].torchvision if name in DATASETS else None
    if download_by is None:
        known = [each for each, source in DATASETS.items() if source.torchvision]
        raise UserError(unknown("dataset", name, known, "is not one to download"))
    try:
        getattr(datasets, download_by)(str(data_folder()), download=True)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"dataset {name}: cannot be downloaded ({reason})") from None


def load(name: str) -> Dataset:
    """Load the dataset of this name, or raise an error that says what is missing."""
    if name not in DATASETS:
        raise UserError(DATASETS.unknown(name))
    folder = data_folder()
    try:
        dataset: Dataset = resolved(DATASETS[name].load)(folder)
        return dataset
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"dataset {name}: missing or incomplete under {folder} ({reason}); set"
            f" ABLATE_DATA to a folder in torchvision's layout, or run: ablate data get {name}"
        ) from None
