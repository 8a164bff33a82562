"""Datasets: uint8 images in a training and a held-out split, from what is on this machine.

`digits` ships with scikit-learn; nothing is downloaded for it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.errors import UserError


class Images(NamedTuple):
    pixels: Tensor  # uint8, [N, C, H, W]
    labels: Tensor  # int64, [N]


class Dataset(NamedTuple):
    name: str
    train: Images
    heldout: Images
    licence: str
    note: str = ""  # what a reader of a figure must know

    @property
    def shape(self) -> tuple[int, int, int]:
        return tuple(self.train.pixels.shape[1:])  # type: ignore[return-value]

    def hash(self) -> str:
        """Of every pixel and label, in order."""
        digest = hashlib.sha256()
        for part in (*self.train, *self.heldout):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()[:16]


def to_unit_interval_plus_one(pixels: Tensor) -> Tensor:
    """uint8 -> x in [1, 2]."""
    return 1 + pixels.float() / 255


def to_pixels(x: Tensor) -> tuple[Tensor, Tensor]:
    """x -> (uint8, share of each image's pixels that had to be clamped to [1, 2], [B])."""
    clamped = ((x < 1) | (x > 2)).flatten(1).double().mean(1)
    return ((x.clamp(1, 2) - 1) * 255).round().to(torch.uint8), clamped


def mirrored(images: Tensor, which: Tensor) -> Tensor:
    """Those of [B, C, H, W] that [B] names, with left and right exchanged."""
    return torch.where(which.to(images.device)[:, None, None, None], images.flip(3), images)


def _digits(folder: Path) -> Dataset:
    """1,797 real 8×8 digits with 17 grey levels; every fifth is held out."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    pixels = torch.from_numpy(raw.images).mul(255 / 16).round().to(torch.uint8)[:, None]
    labels = torch.from_numpy(raw.target).long()
    heldout = torch.arange(len(labels)) % 5 == 4
    return Dataset(
        "digits",
        Images(pixels[~heldout], labels[~heldout]),
        Images(pixels[heldout], labels[heldout]),
        licence="CC BY 4.0 (Alpaydin, Kaynak; UCI Optical Recognition of Handwritten Digits)",
    )


def _idx(name: str, folder: Path, licence: str) -> Dataset:
    """MNIST and its relatives, in the files that torchvision lays out."""
    raw = folder / TORCHVISION[name] / "raw"
    train = _idx_images(raw, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    test = _idx_images(raw, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return Dataset(name, train, test, licence)


def _idx_images(raw: Path, images: str, labels: str) -> Images:
    from torchvision.datasets.mnist import read_image_file, read_label_file

    try:
        found = Images(read_image_file(raw / images)[:, None], read_label_file(raw / labels).long())
    except (AssertionError, KeyError, TypeError):  # torchvision's words for a foreign file
        raise ValueError(f"{images} or {labels} is not an unpacked IDX file of bytes") from None
    counts = tuple(map(len, found))
    if counts[0] != counts[1]:
        raise ValueError(f"{images} has {counts[0]} images, {labels} {counts[1]} labels")
    return found


def _kmnist(folder: Path) -> Dataset:
    """Where the training images are missing, 8,000 of the test images take their place."""
    raw = folder / TORCHVISION["kmnist"] / "raw"
    licence = "CC BY-SA 4.0 (ROIS-CODH, KMNIST Dataset)"
    if (raw / "train-images-idx3-ubyte").exists():
        return _idx("kmnist", folder, licence)
    test = _idx_images(raw, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return Dataset(
        "kmnist",
        Images(test.pixels[:8000], test.labels[:8000]),
        Images(test.pixels[8000:], test.labels[8000:]),
        licence=licence,
        note="trained on 8,000 of the 10,000 test images, the other 2,000 held out",
    )


def _cifar10(folder: Path) -> Dataset:
    """The official binary version; torchvision reads (and downloads) the pickled one only."""
    licence = "research use (Krizhevsky 2009, Learning Multiple Layers of Features)"
    binary = folder / "cifar-10-batches-bin"
    if binary.is_dir():
        train = [_cifar_batch(binary / f"data_batch_{i}.bin") for i in range(1, 6)]
        merged = Images(*(torch.cat(part) for part in zip(*train, strict=True)))
        return Dataset("cifar10", merged, _cifar_batch(binary / "test_batch.bin"), licence)
    from torchvision.datasets import CIFAR10

    def images(train: bool) -> Images:
        split = CIFAR10(str(folder), train=train)
        pixels = torch.from_numpy(split.data).permute(0, 3, 1, 2).contiguous()
        return Images(pixels, torch.tensor(split.targets))

    return Dataset("cifar10", images(True), images(False), licence)


def _cifar_batch(path: Path) -> Images:
    """Records of one label byte and 3,072 bytes, planes red, green, blue."""
    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty")
    records = torch.from_file(str(path), size=size, dtype=torch.uint8).view(-1, 3073)
    return Images(records[:, 1:].reshape(-1, 3, 32, 32).clone(), records[:, 0].long())


TORCHVISION = {
    "mnist": "MNIST",
    "fashion": "FashionMNIST",
    "kmnist": "KMNIST",
    "cifar10": "CIFAR10",
}
"""Classes that download; also the folders of those in IDX files."""

LOADERS: dict[str, Callable[[Path], Dataset]] = {
    "digits": _digits,
    "mnist": lambda folder: _idx("mnist", folder, "CC BY-SA 3.0 (LeCun, Cortes)"),
    "fashion": lambda folder: _idx("fashion", folder, "MIT (Zalando)"),
    "kmnist": _kmnist,
    "cifar10": _cifar10,
}


def data_folder() -> Path:
    """`ABLATE_DATA`, in torchvision's layout."""
    return Path(os.environ.get("ABLATE_DATA", "~/.cache/ablate/data")).expanduser()


def state(name: str) -> str:
    """In a few words: how many images are at hand, or why not."""
    try:
        dataset = load(name)
    except UserError:
        return "not here"
    count = (
        f"{len(dataset.train.labels)} training and {len(dataset.heldout.labels)} held-out images"
    )
    return f"{count}; {dataset.note}" if dataset.note else count


def download(name: str) -> None:
    """Through torchvision, into the data folder."""
    from torchvision import datasets

    if name not in TORCHVISION:
        raise UserError(
            f"dataset {name!r} is not one to download; those are {', '.join(TORCHVISION)}"
        )
    try:
        getattr(datasets, TORCHVISION[name])(str(data_folder()), download=True)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"dataset {name}: cannot be downloaded ({reason})") from None


def load(name: str) -> Dataset:
    if name not in LOADERS:
        raise UserError(f"dataset {name!r} is unknown; known: {', '.join(LOADERS)}")
    folder = data_folder()
    try:
        return LOADERS[name](folder)
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"dataset {name}: not whole under {folder} ({' '.join(str(error).split())[:200]}); set"
            f" ABLATE_DATA to a folder in torchvision's layout, or run: ablate data get {name}"
        ) from None
