"""Datasets: the digits, with their pinned hash, and the readers on small files made here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ablate.core.errors import UserError
from ablate.data import datasets as data
from ablate.data.datasets import Dataset, Images, download
from ablate.data.registry import DATASETS

DIGITS_HASH = "ca7d4078928a67c0"
"""Of scikit-learn's digits, split and scaled as we do: bundles carry it, so it must not change."""


def test_a_download_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torchvision.datasets

    def refuse(root: str, download: bool) -> None:
        raise RuntimeError("no way\nto the server")

    monkeypatch.setattr(torchvision.datasets, "MNIST", refuse)
    with pytest.raises(UserError) as caught:
        download("mnist")
    assert str(caught.value) == "dataset mnist: cannot be downloaded (no way to the server)"


def test_digits_are_split_one_in_five(digits: Dataset) -> None:
    assert digits.shape == (1, 8, 8)
    assert len(digits.train.pixels) == len(digits.train.labels) == 1438
    assert len(digits.heldout.pixels) == len(digits.heldout.labels) == 359
    for images in (digits.train, digits.heldout):
        assert images.pixels.dtype == torch.uint8
        assert set(images.labels.tolist()) == set(range(10))


def test_digits_splits_are_disjoint_and_complete(digits: Dataset) -> None:
    """Every fifth is held out: merged again, the two splits are the 1,797 digits in order."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    place = np.arange(1797) % 5 == 4
    pixels, labels = np.empty((1797, 8, 8)), np.empty(1797)
    for images, where in ((digits.train, ~place), (digits.heldout, place)):
        pixels[where], labels[where] = images.pixels[:, 0].numpy(), images.labels.numpy()
    np.testing.assert_array_equal(labels, raw.target)
    # 17 grey levels spread over 0..255: 255/16 apart, so rounding moves a level by at most ½
    assert np.abs(pixels * 16 / 255 - raw.images).max() <= 0.5 * 16 / 255
    assert (pixels.min(), pixels.max()) == (0, 255)


def test_digits_hash_is_pinned_and_sees_everything(digits: Dataset) -> None:
    assert digits.hash() == DIGITS_HASH

    def touched(split: str, part: str) -> Dataset:
        images: Images = getattr(digits, split)
        changed = getattr(images, part).clone()
        changed[-1] += 1
        return Dataset(**digits._asdict() | {split: images._replace(**{part: changed})})

    seen = {
        touched(split, part).hash()
        for split in ("train", "heldout")
        for part in ("pixels", "labels")
    }
    assert len(seen | {DIGITS_HASH}) == 5


def test_every_pixel_value_survives_the_round_trip() -> None:
    values = torch.arange(256, dtype=torch.uint8).view(2, 1, 8, 16)
    x = data.to_unit_interval_plus_one(values)
    assert (float(x.min()), float(x.max())) == (1.0, 2.0)
    # through y = log x, as samplers do: float32 loses some 1e-7 of x, a pixel is 4e-3
    for image in (x, x.log().exp().clamp(1, 2)):
        pixels, clamped = data.to_pixels(image)
        assert torch.equal(pixels, values)
        assert clamped.tolist() == [0, 0]


def test_clamped_share_is_by_image() -> None:
    x = torch.full((3, 1, 2, 2), 1.5)
    x[1, 0, 0, 0] = 0.999
    x[2, 0, :, 0], x[2, 0, 1, 1] = 2.001, -3.0
    pixels, clamped = data.to_pixels(x)
    assert clamped.tolist() == [0, 0.25, 0.75]
    assert pixels[1].flatten().tolist() == [0, 128, 128, 128]  # 127.5 goes to the even one
    assert pixels[2].flatten().tolist() == [255, 128, 255, 0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_DATA", str(tmp_path))
    return tmp_path


def bytes_of(shape: tuple[int, ...], seed: int, high: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape, dtype=np.uint8)


def write_idx(path: Path, values: np.ndarray) -> None:
    """Magic number (type 8: unsigned byte; dimensions), sizes as big-endian int32, the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = np.array([0x800 + values.ndim, *values.shape], dtype=">i4")
    path.write_bytes(header.tobytes() + values.tobytes())


def write_split(raw: Path, split: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = bytes_of((count, 4, 3), seed), bytes_of((count,), seed + 1, 10)
    write_idx(raw / f"{split}-images-idx3-ubyte", pixels)
    write_idx(raw / f"{split}-labels-idx1-ubyte", labels)
    return pixels, labels


def same(images: Images, pixels: np.ndarray, labels: np.ndarray) -> bool:
    right = images.pixels.dtype == torch.uint8 and images.labels.dtype == torch.int64
    return right and (
        np.array_equal(images.pixels.numpy(), pixels)
        and np.array_equal(images.labels.numpy(), labels)
    )


@pytest.mark.parametrize(
    ("name", "place"), [("mnist", "MNIST"), ("fashion", "FashionMNIST"), ("kmnist", "KMNIST")]
)
def test_idx_files_are_read_as_written(folder: Path, name: str, place: str) -> None:
    train = write_split(folder / place / "raw", "train", 7, 1)
    test = write_split(folder / place / "raw", "t10k", 5, 3)
    dataset = data.load(name)
    assert (dataset.name, dataset.shape, dataset.note) == (name, (1, 4, 3), "")
    assert same(dataset.train, train[0][:, None], train[1])
    assert same(dataset.heldout, test[0][:, None], test[1])
    assert dataset.licence


def test_kmnist_without_training_images_splits_the_test_images_and_says_so(folder: Path) -> None:
    pixels, labels = write_split(folder / "KMNIST" / "raw", "t10k", 10_000, 5)
    dataset = data.load("kmnist")
    assert same(dataset.train, pixels[:8000, None], labels[:8000])
    assert same(dataset.heldout, pixels[8000:, None], labels[8000:])
    assert "test images" in dataset.note


def write_cifar(folder: Path, count: int = 3) -> dict[str, np.ndarray]:
    """The binary version: a label byte, then 1,024 bytes of red, of green, of blue, by rows."""
    binary = folder / "cifar-10-batches-bin"
    binary.mkdir()
    records = {}
    for seed, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        records[name] = bytes_of((count, 3073), 10 + seed)
        records[name][:, 0] %= 10
        (binary / f"{name}.bin").write_bytes(records[name].tobytes())
    return records


def test_cifar10_binary_version_is_read_as_written(folder: Path) -> None:
    records = write_cifar(folder)
    dataset = data.load("cifar10")
    assert dataset.shape == (3, 32, 32)
    train = np.concatenate([records[f"data_batch_{i}"] for i in range(1, 6)])
    for images, rows in ((dataset.train, train), (dataset.heldout, records["test_batch"])):
        assert same(images, rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0])
    # pixel (row 2, column 5) of the second image's green plane, by the format's own words
    assert dataset.train.pixels[1, 1, 2, 5] == train[1, 1 + 1024 + 2 * 32 + 5]


def test_cifar10_does_not_hold_on_to_its_files(folder: Path) -> None:
    """Pixels are a copy: a file changed later must not change a dataset in use."""
    write_cifar(folder)
    dataset = data.load("cifar10")
    before = dataset.hash()
    with (folder / "cifar-10-batches-bin" / "test_batch.bin").open("r+b") as file:
        file.write(bytes(3073))
    assert dataset.hash() == before


def refusal(name: str) -> str:
    with pytest.raises(UserError) as caught:
        data.load(name)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    return text


@pytest.mark.parametrize("name", ["mnist", "fashion", "kmnist", "cifar10"])
def test_missing_dataset_names_folder_and_remedy(folder: Path, name: str) -> None:
    text = refusal(name)
    assert name in text
    assert str(folder) in text
    assert "ABLATE_DATA" in text
    assert f"ablate data get {name}" in text


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "cut by a byte": cut,
    "empty": lambda path: path.write_bytes(b""),
    "header alone": lambda path: path.write_bytes(path.read_bytes()[:8]),
    "a web page": lambda path: path.write_text("<!doctype html><title>404</title>"),
    "still packed": lambda path: path.write_bytes(b"\x1f\x8b\x08\x00" + bytes(60)),
    "a folder": replace_by_folder,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize(
    "file",
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"],
)
def test_damaged_idx_file_is_refused(
    folder: Path, file: str, damage: Callable[[Path], object]
) -> None:
    raw = folder / "MNIST" / "raw"
    write_split(raw, "train", 7, 1)
    write_split(raw, "t10k", 5, 3)
    data.load("mnist")
    damage(raw / file)
    assert str(folder) in refusal("mnist")


@pytest.mark.parametrize("damage", ["missing", "cut by a byte", "empty", "a web page", "a folder"])
def test_damaged_cifar_batch_is_refused(folder: Path, damage: str) -> None:
    write_cifar(folder)
    data.load("cifar10")
    DAMAGES[damage](folder / "cifar-10-batches-bin" / "data_batch_3.bin")
    assert str(folder) in refusal("cifar10")


def test_labels_of_another_split_are_refused(folder: Path) -> None:
    """Seven images and five labels would be paired wrongly without a message."""
    raw = folder / "MNIST" / "raw"
    write_split(raw, "train", 7, 1)
    write_split(raw, "t10k", 5, 3)
    shutil.copy(raw / "t10k-labels-idx1-ubyte", raw / "train-labels-idx1-ubyte")
    assert "7 images" in refusal("mnist")


def test_unknown_dataset_is_refused_with_the_known_ones() -> None:
    text = refusal("minst")
    assert "'minst'" in text
    assert all(name in text for name in DATASETS)


def test_data_folder_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABLATE_DATA", raising=False)
    assert data.data_folder() == Path.home() / ".cache/ablate/data"
    monkeypatch.setenv("ABLATE_DATA", "~/elsewhere")
    assert data.data_folder() == Path.home() / "elsewhere"
