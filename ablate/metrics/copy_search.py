"""The training images that samples may be copies of: where to look, what is found, and a picture.

In features always; in pixels where the images themselves are at hand.
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
"""Held-out images whose distances to the training set are taken."""

PANEL_ROWS = 8


@dataclass(frozen=True)
class Neighbourhood:
    extractor: Extractor
    features: tuple[Tensor, Tensor]  # of training and of held-out images
    dataset: Dataset | None  # the images, if they are at hand
    mirrored: bool  # in training

    @cached_property
    def spaces(self) -> list[Space]:
        sides = {"feature": self.features}
        if self.dataset is not None:
            images = self.dataset.train.pixels, self.dataset.heldout.pixels
            sides["pixel"] = as_vectors(images[0]), as_vectors(images[1][:MOST_CONTROLS])
        return [
            Space(name, train, make_control(train, heldout[:MOST_CONTROLS]), self.mirrored)
            for name, (train, heldout) in sides.items()
        ]

    def find(self, pixels: Tensor, features: Tensor | None = None) -> dict[str, Copies]:
        """The neighbours of samples, uint8, in each space by its name; `features` are theirs, if
        they are known."""
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

    def panel(self, pixels: Tensor, found: dict[str, Copies]) -> Tensor:
        """The samples nearest to the training set, nearest first; each beside its neighbours, in a
        row, where these can be shown. uint8, [rows, columns, C, H, W]."""
        nearest = found.get("pixel", found["feature"]).samples
        order = nearest.distances[:, 0].argsort()[:PANEL_ROWS]
        shown = pixels[order][:, None]
        if self.dataset is None:
            return shown.transpose(0, 1)
        return torch.cat([shown, self.dataset.train.pixels[nearest.indices[order]]], 1)


def as_vectors(pixels: Tensor) -> Tensor:
    return pixels.flatten(1).float()
