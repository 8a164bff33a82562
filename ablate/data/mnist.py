"""MNIST, Fashion-MNIST and Kuzushiji-MNIST, from the IDX files that torchvision lays out."""

from __future__ import annotations

from pathlib import Path

from ablate.data.datasets import Dataset, Images


def load_mnist(folder: Path) -> Dataset:
    return _whole("mnist", folder / "MNIST" / "raw", "CC BY-SA 3.0 (LeCun, Cortes)")


def load_fashion(folder: Path) -> Dataset:
    return _whole("fashion", folder / "FashionMNIST" / "raw", "MIT (Zalando)")


def _whole(name: str, raw: Path, licence: str) -> Dataset:
    """Both splits as published."""
    train = _idx_images(raw, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    test = _idx_images(raw, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return Dataset(name, train, test, licence)


def _idx_images(raw: Path, images: str, labels: str) -> Images:
    from torchvision.datasets.mnist import read_image_file, read_label_file

    try:
        found = Images(read_image_file(raw / images)[:, None], read_label_file(raw / labels).long())
    except (AssertionError, KeyError, TypeError):  # what torchvision raises for a foreign file
        raise ValueError(f"{images} or {labels} is not an unpacked IDX file of bytes") from None
    counts = tuple(map(len, found))
    if counts[0] != counts[1]:
        raise ValueError(f"{images} has {counts[0]} images, {labels} {counts[1]} labels")
    return found


def load_kmnist(folder: Path) -> Dataset:
    """If the training images are missing, 8,000 of the test images stand in for them."""
    raw = folder / "KMNIST" / "raw"
    licence = "CC BY-SA 4.0 (ROIS-CODH, KMNIST Dataset)"
    if (raw / "train-images-idx3-ubyte").exists():
        return _whole("kmnist", raw, licence)
    test = _idx_images(raw, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return Dataset(
        "kmnist",
        Images(test.pixels[:8000], test.labels[:8000]),
        Images(test.pixels[8000:], test.labels[8000:]),
        licence=licence,
        note="trained on 8,000 of the 10,000 test images, the other 2,000 held out",
    )
