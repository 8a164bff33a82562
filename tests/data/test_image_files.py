"""Images from folders and files, and one-line errors for everything that cannot be read."""

from __future__ import annotations

import os
import pickle
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile
from safetensors.torch import save_file
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data.image_files import read_images


def pictures(count: int = 3, channels: int = 3, size: tuple[int, int] = (5, 4)) -> Tensor:
    generator = torch.Generator().manual_seed(channels)
    shape = (count, channels, *size)
    return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)


def save(folder: Path, images: Tensor, suffix: str = ".png") -> Path:
    folder.mkdir(exist_ok=True)
    for index, image in enumerate(images):
        array = image.permute(1, 2, 0).numpy()
        Image.fromarray(array[..., 0] if len(image) == 1 else array).save(
            folder / f"{index:03d}{suffix}"
        )
    return folder


@pytest.mark.parametrize("channels", [1, 3])
def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path, channels: int) -> None:
    images = pictures(channels=channels)
    (tmp_path / "notes.txt").write_text("no image")
    reported: list[tuple[int, int]] = []
    found = read_images(save(tmp_path, images), lambda *counts: reported.append(counts))
    assert torch.equal(found, images)
    assert reported == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("layout", ["N×C×H×W", "N×H×W×C", "N×H×W", "floats"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".safetensors"])
def test_tensor_files(tmp_path: Path, layout: str, suffix: str) -> None:
    images = pictures(channels=1 if layout == "N×H×W" else 3)
    tensor = {
        "N×C×H×W": images,
        "N×H×W×C": images.permute(0, 2, 3, 1).contiguous(),
        "N×H×W": images[:, 0].contiguous(),
        "floats": images.float() / 255,
    }[layout]
    path = tmp_path / f"set{suffix}"
    write: dict[str, Callable[[], object]] = {
        ".npy": lambda: np.save(path, tensor.numpy()),
        ".npz": lambda: np.savez(path, images=tensor.numpy(), labels=np.zeros(3)),
        ".pt": lambda: torch.save(tensor, path),
        ".safetensors": lambda: save_file({"x": tensor}, path),
    }
    write[suffix]()
    assert torch.equal(read_images(path), images)


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_images(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_sizes_that_differ(tmp_path: Path) -> None:
    save(tmp_path, pictures(2))
    Image.new("RGB", (7, 7)).save(tmp_path / "zz.png")
    assert "zz.png: 7×7 colour, but 000.png is 4×5 colour" in refused(tmp_path)


def test_grey_among_colour(tmp_path: Path) -> None:
    save(tmp_path, pictures(2))
    Image.new("L", (4, 5)).save(tmp_path / "zz.png")
    assert "zz.png: 4×5 grey, but" in refused(tmp_path)


@pytest.mark.parametrize("mode", ["RGBA", "P", "I;16", "1"])
def test_modes_that_are_not_read(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (4, 5)).save(tmp_path / "a.png")
    assert f"mode {mode}" in refused(tmp_path)


def test_a_picture_of_too_many_pixels_is_refused_undecoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """13,000 × 13,000 pixels, which its header says: 169 MB if it were decoded, 1.5 GB in all."""
    head = struct.pack(">IIBBBBB", 13_000, 13_000, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("decoded"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        assert "13000×13000; at most 16,777,216 pixels" in refused(tmp_path)


def test_a_truncated_picture(tmp_path: Path) -> None:
    path = save(tmp_path, pictures(1, size=(40, 40))) / "000.png"
    path.write_bytes(path.read_bytes()[:200])
    assert "000.png: cannot be read" in refused(tmp_path)


def test_an_empty_folder_and_nothing_at_all(tmp_path: Path) -> None:
    assert "no images in it" in refused(tmp_path)
    assert "no such folder or file" in refused(tmp_path / "none")
    (tmp_path / "a.csv").write_text("1,2")
    assert "not a folder of images, and none of .npy" in refused(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.full((2, 3, 4, 4), float("nan")), "2 of 2 images hold a NaN"),
        (torch.full((2, 3, 4, 4), 1.5), "values from 1.5 to 1.5; floats must lie in [0, 1]"),
        (torch.full((2, 3, 4, 4), -0.5), "values from -0.5"),
        (torch.zeros(2, 5, 4, 4), "shape 2×5×4×4 is not that of images"),
        (torch.zeros(7), "shape 7"),
        (torch.zeros(0, 3, 4, 4), "no images in it"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.int64), "numbers are torch.int64"),
    ],
)
def test_tensors_that_are_not_images(tmp_path: Path, tensor: Tensor, words: str) -> None:
    torch.save(tensor, tmp_path / "a.pt")
    assert words in refused(tmp_path / "a.pt")


def test_files_that_are_something_else(tmp_path: Path) -> None:
    """Broken, ambiguous, or a pickle: never loaded."""
    for suffix in (".npy", ".npz", ".pt", ".safetensors"):
        path = tmp_path / f"broken{suffix}"
        path.write_bytes(b"neither fish nor fowl")
        words = "pickles are not loaded" if suffix == ".pt" else "cannot be read"
        assert words in refused(path)
    save_file({"a": torch.zeros(1), "b": torch.zeros(1)}, tmp_path / "two.safetensors")
    assert "arrays a, b; call the one to read images" in refused(tmp_path / "two.safetensors")
    marker = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> tuple[Callable[..., None], tuple[Path]]:
            return Path.touch, (marker,)

    (tmp_path / "trap.pt").write_bytes(pickle.dumps(Trap()))
    assert "pickles are not loaded" in refused(tmp_path / "trap.pt")
    torch.save(Trap(), tmp_path / "saved.pt")
    assert "pickles are not loaded" in refused(tmp_path / "saved.pt")
    np.save(tmp_path / "trap.npy", np.array([Trap()]), allow_pickle=True)
    assert "trap.npy: cannot be read" in refused(tmp_path / "trap.npy")
    assert not marker.exists()


@pytest.mark.parametrize(
    "saved",
    [
        [torch.zeros(2, 3, 4, 4)],
        {"images": [torch.zeros(3, 4, 4)]},
        (torch.zeros(2, 3, 4, 4), torch.zeros(2)),
        7,
        torch.zeros(2, 3, 4, 4).to_sparse(),
    ],
    ids=["list", "dict of lists", "tuple", "number", "sparse"],
)
def test_what_is_saved_but_no_tensor(tmp_path: Path, saved: object) -> None:
    torch.save(saved, tmp_path / "a.pt")
    assert ", not one dense tensor" in refused(tmp_path / "a.pt")


def test_arrays_of_something_else(tmp_path: Path) -> None:
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    assert "words.npy: cannot be read" in refused(tmp_path / "words.npy")
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 1, 3, 3), np.uint8))
    (tmp_path / "renamed.npy").write_bytes((tmp_path / "a.npz").read_bytes())
    assert "renamed.npy: cannot be read" in refused(tmp_path / "renamed.npy")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(UserError, match=r"a\.png: not a file"):
        read_images(tmp_path)


def test_postscript_is_not_handed_to_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow knows it by its content, and calls Ghostscript to draw it."""
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("called"))
    head = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    (tmp_path / "a.png").write_bytes(head + b"showpage\n")
    with pytest.raises(UserError, match=r"a\.png: cannot be read"):
        read_images(tmp_path)
