"""Resizes of images to an extractor's size. A resize is part of a metric's definition.

Each is linear and treats rows and columns alike, so each is one matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor


def _tf1(inputs: int, outputs: int) -> Tensor:
    """TensorFlow 1's bilinear resize, used in published FIDs: pixel i is at i · inputs/outputs."""
    place = torch.arange(outputs, dtype=torch.float64) * (inputs / outputs)
    low = place.floor().long()
    high = (low + 1).clamp_max(inputs - 1)
    share = (place - low)[:, None]
    eye = torch.eye(inputs, dtype=torch.float64)
    return (1 - share) * eye[low] + share * eye[high]


def _filtered(kernel: Callable[[Tensor], Tensor], reach: int, inputs: int, outputs: int) -> Tensor:
    """Pixels at their centres, weighted by a kernel that widens when images shrink."""
    ratio = inputs / outputs
    widen = max(ratio, 1.0)
    centre = (torch.arange(outputs, dtype=torch.float64)[:, None] + 0.5) * ratio
    distance = (torch.arange(inputs, dtype=torch.float64) + 0.5 - centre) / widen
    weights = torch.where(distance.abs() < reach, kernel(distance), 0.0)
    return weights / weights.sum(1, keepdim=True)  # at the edges the kernel is cut off


def _triangle(t: Tensor) -> Tensor:
    return 1 - t.abs()


def _cubic(t: Tensor) -> Tensor:
    """Keys' cubic kernel with a = -1/2, as in Pillow."""
    t = t.abs()
    near = 1.5 * t**3 - 2.5 * t**2 + 1
    far = -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    return torch.where(t < 1, near, far)


RESIZES: dict[str, Callable[[int, int], Tensor]] = {
    "tf1": _tf1,
    "antialias": lambda inputs, outputs: _filtered(_triangle, 1, inputs, outputs),
    "clean": lambda inputs, outputs: _filtered(_cubic, 2, inputs, outputs),
}
"""tf1: as in published FIDs; antialias: bilinear, torchmetrics' default; clean: clean-fid's."""


@lru_cache(maxsize=16)
def matrix(kind: str, inputs: int, outputs: int) -> Tensor:
    """The matrix, [outputs, inputs], that resizes a row or a column of pixels."""
    return RESIZES[kind](inputs, outputs).float()


def resized(images: Tensor, kind: str, size: int) -> Tensor:
    """[B, C, H, W] -> float32, [B, C, size, size]; nothing is rounded or clamped."""
    height, width = images.shape[2:]
    rows, columns = (matrix(kind, n, size).to(images.device) for n in (height, width))
    return rows @ images.float() @ columns.T
