"""Contact sheets: grids of samples and strips of trajectories in one picture."""

from __future__ import annotations

import math
from pathlib import Path

from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

MIN_SIDE = 28
"""Images smaller than this are enlarged by a whole factor, so that a person can see them."""

GAP, WHITE = 2, 255
"""Pixels between and around images, and their grey level."""


def save_grid(path: Path, pixels: Tensor, columns: int) -> None:
    """Write uint8 images, [N, C, H, W], as one picture with `columns` of them in a row."""
    picture(pixels, columns).save(path)


def picture(pixels: Tensor, columns: int) -> Image.Image:
    """Make one picture of uint8 images, [N, C, H, W], with `columns` of them in a row."""
    return Image.fromarray(sheet(enlarged(pixels, MIN_SIDE), columns).numpy())


def enlarged(pixels: Tensor, side: int) -> Tensor:
    """Repeat pixels of images, [N, C, H, W], until these are at least `side` wide."""
    factor = max(1, math.ceil(side / pixels.shape[-1]))
    return pixels.repeat_interleave(factor, 2).repeat_interleave(factor, 3)


def sheet(pixels: Tensor, columns: int) -> Tensor:
    """Put images side by side, [N, C, H, W] -> [rows, columns, 3] in pixels.

    torchvision's `make_grid` does the same, but its package takes longer to import than a small
    study's first cell takes to draw.
    """
    count, _, height, width = pixels.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    tiles = pixels.new_full((rows * columns, 3, height + GAP, width + GAP), WHITE)
    tiles[:count, :, :height, :width] = pixels  # grey is the same in all channels
    placed = tiles.unflatten(0, (rows, columns)).permute(0, 3, 1, 4, 2)  # [rows, H, columns, W, 3]
    return pad(placed.flatten(2, 3).flatten(0, 1), (0, 0, GAP, 0, GAP, 0), value=WHITE)
