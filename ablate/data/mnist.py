"""MNIST, Fashion-MNIST and Kuzushiji-MNIST, from IDX files in torchvision's layout."""

from __future__ import annotations

from pathlib import Path

from ablate.data.datasets import Dataset, Images


def load_mnist(folder: Path) -> Dataset:
    """MNIST."""
    return _both_splits("mnist", folder / "MNIST" / "raw", "CC BY-SA 3.0 (LeCun, Cortes)")


def load_fashion(folder: Path) -> Dataset:
    """Fashion-MNIST."""
    return _both_splits("fashion", folder / "FashionMNIST" / "raw", "MIT (Zalando)")


def _both_splits(name: str, raw: Path, licence: str) -> Dataset:
    """A dataset with both splits as published."""
    train = _idx_images(raw, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    test = _idx_images(raw, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return Dataset(name, train, test, licence)


def _idx_images(raw: Path, images: str, labels: str) -> Images:
    from torchvision.datasets.mnist import read_image_file, read_label_file

    try:
        split = Images(read_image_file(raw / images)[:, None], read_label_file(raw / labels).long())
    except (AssertionError, KeyError, TypeError):  # torchvision raises these on other files
        raise ValueError(f"{images} or {labels} is not an unpacked IDX file of bytes") from None
    counts = tuple(map(len, split))
    if counts[0] != counts[1]:
        raise ValueError(f"{images} has {counts[0]} images, {labels} {counts[1]} labels")
    return split


def load_kmnist(folder: Path) -> Dataset:
    """Kuzushiji-MNIST; if its training images are missing, 8,000 test images replace them."""
    raw = folder / "KMNIST" / "raw"
    licence = "CC BY-SA 4.0 (ROIS-CODH, KMNIST Dataset)"
    if (raw / "train-images-idx3-ubyte").exists():
        return _both_splits("kmnist", raw, licence)
    test = _idx_images(raw, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return Dataset(
        "kmnist",
        Images(test.pixels[:8000], test.labels[:8000]),
        Images(test.pixels[8000:], test.labels[8000:]),
        licence=licence,
        note="trained on 8,000 of the 10,000 test images, the other 2,000 held out",
    )
