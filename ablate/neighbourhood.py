"""The training images that samples may be copies of: where to look, what is found, and a picture.

In features always; in pixels where the images themselves are at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ablate.data import Dataset
from ablate.extractor import Extractor, extract
from ablate.metrics.copies import Copies, Space, find_copies, make_control

MOST_CONTROLS = 1000
"""Held-out images whose distances to the training set are taken."""

PANEL_ROWS = 8


class Neighbourhood(NamedTuple):
    extractor: Extractor
    spaces: list[Space]
    images: Tensor | None  # the training images, uint8, if they are at hand

    def find(self, pixels: Tensor) -> dict[str, Copies]:
        """The neighbours of samples, uint8, in each space by its name."""
        return {
            space.name: find_copies(
                self._vectors(space, pixels),
                space.train,
                space.control,
                mirror=self._vectors(space, pixels.flip(3)) if space.mirrored else None,
            )
            for space in self.spaces
        }

    def _vectors(self, space: Space, pixels: Tensor) -> Tensor:
        return as_vectors(pixels) if space.name == "pixel" else extract(self.extractor, pixels)

    def panel(self, pixels: Tensor, found: dict[str, Copies]) -> Tensor:
        """The samples nearest to the training set, nearest first; each beside its neighbours, in a
        row, where these can be shown. uint8, [rows, columns, C, H, W]."""
        nearest = found.get("pixel", found["feature"]).samples
        order = nearest.distances[:, 0].argsort()[:PANEL_ROWS]
        shown = pixels[order][:, None]
        if self.images is None:
            return shown.transpose(0, 1)
        return torch.cat([shown, self.images[nearest.indices[order]]], 1)


def as_vectors(pixels: Tensor) -> Tensor:
    return pixels.flatten(1).float()


def neighbourhood(
    extractor: Extractor,
    features: tuple[Tensor, Tensor],
    dataset: Dataset | None,
    mirrored: bool,
) -> Neighbourhood:
    """Of features of training and held-out images, and of the images if `dataset` is given."""
    sides = {"feature": features}
    if dataset is not None:
        sides["pixel"] = as_vectors(dataset.train.pixels), as_vectors(dataset.heldout.pixels)
    spaces = [
        Space(name, train, make_control(train, heldout[:MOST_CONTROLS]), mirrored)
        for name, (train, heldout) in sides.items()
    ]
    return Neighbourhood(extractor, spaces, None if dataset is None else dataset.train.pixels)
