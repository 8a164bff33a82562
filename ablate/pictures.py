"""Pictures of images: grids of samples and strips of trajectories, as PNG."""

from __future__ import annotations

import math
from pathlib import Path

from torch import Tensor
from torchvision.utils import save_image

MIN_SIDE = 28
"""Images smaller than this are enlarged by a whole factor, so that a person can see them."""


def save_grid(path: Path, pixels: Tensor, columns: int) -> None:
    """uint8 images [N, C, H, W] -> one picture with `columns` of them in a row."""
    factor = max(1, math.ceil(MIN_SIDE / pixels.shape[-1]))
    large = pixels.repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    save_image(large.float() / 255, path, nrow=columns, padding=2, pad_value=1)
