"""Images from a folder or a tensor file: checked, uint8, all of one size and mode."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from ablate.core.errors import UserError, first_line

PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF")
"""By content: Pillow would hand a PostScript file to Ghostscript, whatever it is called."""

MOST_PIXELS = 4096 * 4096
"""Of one picture: metrics look at far fewer, and a small file can claim gigabytes."""

MODES = {"L": "grey", "RGB": "colour"}


def read_images(
    path: Path, progress: Callable[[int, int], None] = lambda done, total: None
) -> Tensor:
    """Read images, uint8, [N, C, H, W], files in the order of their names.

    progress: called with (images read, images in all).
    """
    if path.is_dir():
        return _folder(path, progress)
    if not path.is_file():
        raise UserError(f"{path}: no such folder or file")
    if path.suffix not in READERS:
        kinds = ", ".join(READERS)
        raise UserError(f"{path}: not a folder of images, and none of {kinds}")
    try:
        images = READERS[path.suffix](path)
    except pickle.UnpicklingError:
        raise UserError(f"{path}: holds more than tensors; pickles are not loaded") from None
    except Exception as error:  # readers raise anything on a broken file
        raise UserError(f"{path}: cannot be read ({first_line(error)})") from None
    return checked(images, path)


def _folder(path: Path, progress: Callable[[int, int], None]) -> Tensor:
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in PICTURES)
    if not files:
        raise UserError(f"{path}: no images in it ({', '.join(sorted(PICTURES))})")
    images: list[Tensor] = []
    for index, file in enumerate(files):
        image = _picture(file)
        if images and image.shape != images[0].shape:
            raise UserError(
                f"{file}: {_size(image)}, but {files[0].name} is {_size(images[0])}; all images"
                " must be of one size and mode"
            )
        images.append(image)
        progress(index + 1, len(files))
    return torch.stack(images)


def _size(image: Tensor) -> str:
    """The size and mode of an image, [C, H, W], in words."""
    channels, height, width = image.shape
    return f"{width}×{height} {'grey' if channels == 1 else 'colour'}"


def _picture(file: Path) -> Tensor:
    if not file.is_file():  # a pipe would be waited for
        raise UserError(f"{file}: not a file")
    try:
        with Image.open(file, formats=FORMATS) as opened:
            if math.prod(opened.size) > MOST_PIXELS:  # as its header says: nothing is decoded yet
                size = "×".join(map(str, opened.size))
                raise UserError(f"{file}: {size}; at most {MOST_PIXELS:,} pixels are read")
            opened.load()  # raises if the file is truncated
            if opened.mode not in MODES:
                raise UserError(f"{file}: mode {opened.mode}; 8-bit grey (L) or RGB is read")
            pixels = np.asarray(opened)
    except UserError:
        raise
    except Exception as error:  # Pillow raises anything on a broken file
        raise UserError(f"{file}: cannot be read ({first_line(error)})") from None
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)


def checked(images: Tensor, path: Path) -> Tensor:
    """Check images and return them as uint8, [N, C, H, W].

    Floating-point numbers must lie in [0, 1] and are rounded to 255ths. [N, H, W] is grey; channels
    may come first or last. `path` is for messages.
    """
    images = images[:, None] if images.ndim == 3 else images
    if images.ndim == 4 and images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        images = images.permute(0, 3, 1, 2)
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        shape = "×".join(map(str, images.shape))
        raise UserError(f"{path}: shape {shape} is not that of images: N×C×H×W, C = 1 or 3")
    if not images.numel():
        raise UserError(f"{path}: no images in it")
    if images.dtype == torch.uint8:
        return images.contiguous()
    if not images.is_floating_point():
        raise UserError(f"{path}: numbers are {images.dtype}; give uint8, or floats in [0, 1]")
    if not bool(images.isfinite().all()):
        bad = int((~images.isfinite()).flatten(1).any(1).sum())
        raise UserError(f"{path}: {bad} of {len(images)} images hold a NaN or an infinity")
    low, high = float(images.min()), float(images.max())
    if low < 0 or high > 1:
        raise UserError(f"{path}: values from {low:.4g} to {high:.4g}; floats must lie in [0, 1]")
    return (images * 255).round().to(torch.uint8).contiguous()


def _numpy(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path, allow_pickle=False))


def _npz(path: Path) -> Tensor:
    with np.load(path, allow_pickle=False) as file:
        return torch.from_numpy(file[_only(file.files)])


def _state(path: Path) -> Tensor:
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, dict):
        content = content[_only(content)]
    if not isinstance(content, Tensor) or content.layout != torch.strided:
        raise ValueError(f"a {type(content).__name__}, not one dense tensor")
    return content


def _safetensors(path: Path) -> Tensor:
    content = load_file(path)
    return content[_only(content)]


def _only(names: Iterable[str]) -> str:
    """The name of the only array in a file, or of the one called images or samples."""
    names = list(names)
    for name in ("images", "samples"):
        if name in names:
            return name
    if len(names) != 1:
        arrays = ", ".join(map(str, names)) or "none"
        raise ValueError(f"arrays {arrays}; call the one to read images")
    return names[0]


READERS: dict[str, Callable[[Path], Tensor]] = {
    ".npy": _numpy,
    ".npz": _npz,
    ".pt": _state,
    ".safetensors": _safetensors,
}
