"""The denoising error of a model on held-out images, by noise level."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.nets.precondition import Model
from ablate.training.step import generator_of

EVALUATION_LEVELS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Noise levels s at which the error is measured."""

HELDOUT, HELDOUT_PREVIEW = 2000, 512
"""Held-out images to measure it on: after training, and for a preview during training."""


@torch.no_grad()
def heldout_error(
    model: Model,
    dataset: Dataset,
    device: str,
    within: tuple[float, float] = (0.0, math.inf),
    count: int = HELDOUT,
    labelled: bool = False,
) -> dict[float, float]:
    """Mean squared error of D per pixel on `count` images, at the levels in the range `within`.

    labelled: whether the model is given the images' labels.
    """
    y_0 = to_unit_interval_plus_one(dataset.heldout.pixels[:count]).log()
    labels = dataset.heldout.labels[:count].split(256) if labelled else itertools.repeat(None)
    errors = {}
    for index, s in enumerate(EVALUATION_LEVELS):
        if not within[0] <= s <= within[1]:
            continue
        z = torch.randn(y_0.shape, generator=generator_of(0, "heldout", index))
        squares = [
            (_denoised(model, a + s * b, s, c, device) - a) ** 2
            for a, b, c in zip(y_0.split(256), z.split(256), labels, strict=False)
        ]
        errors[s] = float(torch.cat(squares).mean())
    return errors


def _denoised(model: Model, y: Tensor, s: float, labels: Tensor | None, device: str) -> Tensor:
    """D(y; s) on the CPU."""
    told = None if labels is None else labels.to(device)
    out: Tensor = model(y.to(device), torch.full((len(y),), s, device=device), told)
    return out.cpu()
