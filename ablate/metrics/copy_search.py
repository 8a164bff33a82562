"""The search for training images that samples may be copies of, and a picture of the nearest.

The search runs in features, and in pixels too if the images are on this machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ablate.data.datasets import Dataset
from ablate.metrics.copies import Copies, Space, find_copies, make_control
from ablate.metrics.extractors.extractor import Extractor, extract

MOST_CONTROLS = 1000
"""Most held-out images to compare samples with."""

PANEL_ROWS = 8
"""Samples in the picture."""


@dataclass(frozen=True)
class Neighbourhood:
    """The training and held-out images of a dataset, to compare samples with."""

    extractor: Extractor
    features: tuple[Tensor, Tensor]  # of training and of held-out images
    dataset: Dataset | None  # the images, if they are on this machine
    mirrored: bool  # whether training mirrored images

    @cached_property
    def spaces(self) -> list[Space]:
        """The spaces to search: features, and pixels if there is a dataset."""
        sides = {"feature": self.features}
        if self.dataset is not None:
            images = self.dataset.train.pixels, self.dataset.heldout.pixels
            sides["pixel"] = as_vectors(images[0]), as_vectors(images[1][:MOST_CONTROLS])
        return [
            Space(name, train, make_control(train, heldout[:MOST_CONTROLS]), self.mirrored)
            for name, (train, heldout) in sides.items()
        ]

    def find(self, pixels: Tensor, features: Tensor | None = None) -> dict[str, Copies]:
        """Search in each space, by its name, for the neighbours of samples, uint8, [N, C, H, W].

        features: those of the samples, [N, f], if they are computed already.
        """
        features = extract(self.extractor, pixels) if features is None else features
        vectors = {"feature": features, "pixel": as_vectors(pixels)}
        return {
            space.name: find_copies(
                vectors[space.name], space.train, space.control, mirror=self._mirror(space, pixels)
            )
            for space in self.spaces
        }

    def _mirror(self, space: Space, pixels: Tensor) -> Tensor | None:
        if not space.mirrored:
            return None
        other = pixels.flip(3)
        return as_vectors(other) if space.name == "pixel" else extract(self.extractor, other)

    def panel(self, pixels: Tensor, copies: dict[str, Copies]) -> Tensor:
        """The samples nearest to the training set, nearest first: uint8, [rows, columns, C, H, W].

        Each row is a sample and its neighbours; without the dataset, all samples in one row.
        """
        nearest = copies.get("pixel", copies["feature"]).samples
        order = nearest.distances[:, 0].argsort()[:PANEL_ROWS]
        shown = pixels[order][:, None]
        if self.dataset is None:
            return shown.transpose(0, 1)
        return torch.cat([shown, self.dataset.train.pixels[nearest.indices[order]]], 1)


def as_vectors(pixels: Tensor) -> Tensor:
    """uint8 images, [N, C, H, W] -> [N, d], float32."""
    return pixels.flatten(1).float()
