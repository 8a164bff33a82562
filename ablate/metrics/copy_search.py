"""The search for training images that samples may be copies of, and a picture of the nearest.

The search runs in features and in pixels. If the images are on this machine, all of them are
searched as they are. Without them, codes of all training images are, if they come with the
dataset's bundles; else the features of a part of them that a bundle carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ablate.data.datasets import Dataset
from ablate.data.tensor_cache import cache_folder, cached_tensors
from ablate.metrics.copies import Copies, Space, find_copies, make_control
from ablate.metrics.extractors.extractor import Extractor, extract
from ablate.metrics.feature_cache import address_of, cached_features
from ablate.metrics.image_codes import Codes, ImageCodes

MOST_CONTROLS = 1000
"""Most held-out images to compare samples with."""

PANEL_ROWS = 8
"""Samples in the picture."""


@dataclass(frozen=True)
class Neighbourhood:
    """The training and held-out images of a dataset, to compare samples with.

    features: of training and of held-out images, in the dataset's order if that is here; None if
        those of the dataset are to be taken from the cache.
    dataset: the images, if they are on this machine.
    mirrored: whether training mirrored images.
    training_images: how many the whole training set has, if that is known.
    compute: False for a plan, which needs the cost of a search and no result.
    codes: of all training images, to search in the place of the dataset.
    """

    extractor: Extractor
    features: tuple[Tensor, Tensor] | None
    dataset: Dataset | None
    mirrored: bool
    training_images: int | None
    compute: bool = True
    codes: ImageCodes | None = None

    @cached_property
    def spaces(self) -> list[Space]:
        """The spaces to search: features, if there are any, and pixels if there is a dataset."""
        by = f"{self.extractor.name} {self.extractor.hash}"
        if self.dataset is None and self.codes is not None:
            pairs = (("feature", self.codes.feature, by), ("pixel", self.codes.pixel, "none"))
            return [self._coded(*each) for each in pairs]
        spaces = []
        if (features := self.features or self._cached()) is not None:
            train, heldout = features[0], features[1][:MOST_CONTROLS]
            spaces.append(self._space("feature", train, heldout, self._mirrored_heldout(), by))
        if self.dataset is not None:
            images = self.dataset.heldout.pixels[:MOST_CONTROLS]
            mirror = as_vectors(images.flip(3)) if self.mirrored else None
            train = as_vectors(self.dataset.train.pixels)
            spaces.append(self._space("pixel", train, as_vectors(images), mirror, "none"))
        return spaces

    def _space(
        self, name: str, train: Tensor, heldout: Tensor, mirror: Tensor | None, extractor: str
    ) -> Space:
        control = make_control(train, heldout, mirror)
        return Space(name, train, control, self.mirrored, self.training_images, extractor)

    def _coded(self, name: str, codes: Codes, extractor: str) -> Space:
        """A space of codes: its vectors are coordinates."""
        mirror = codes.mirrored if self.mirrored else None
        space = self._space(name, codes.coordinates(), codes.heldout, mirror, extractor)
        return space._replace(codes=codes)

    def _cached(self) -> tuple[Tensor, Tensor] | None:
        """The features of the dataset's training and held-out images."""
        if self.dataset is None:
            return None
        train, heldout = (
            cached_features(self.dataset, split, self.extractor, cache_folder())
            for split in ("train", "test")
        )
        return train, heldout

    def _mirrored_heldout(self) -> Tensor | None:
        """Features of the mirrored held-out images; None without mirroring or without images."""
        if self.dataset is None or not self.mirrored:
            return None
        images = self.dataset.heldout.pixels[:MOST_CONTROLS].flip(3)
        folder = cache_folder() / address_of(self.dataset, "test", self.extractor).key
        file = folder / f"mirrored-{MOST_CONTROLS}.safetensors"
        if not self.compute and not file.is_file():
            return torch.zeros(len(images), self.extractor.net.width)
        folder.mkdir(parents=True, exist_ok=True)
        stored = cached_tensors(file, lambda: {"features": extract(self.extractor, images)})
        return stored["features"]

    def find(
        self, pixels: Tensor, features: Tensor | None = None, mirrored: Tensor | None = None
    ) -> dict[str, Copies]:
        """Search in each space, by its name, for the neighbours of samples, uint8, [N, C, H, W].

        features, mirrored: those of the samples and of the mirrored samples, [N, f], if they are
            computed already.
        """
        copies = {}
        for space in self.spaces:
            plain = self._vectors(space, pixels, features)
            mirror = self._vectors(space, pixels.flip(3), mirrored) if space.mirrored else None
            copies[space.name] = find_copies(
                plain, space.train, space.control, mirror=mirror, searched=space.searched
            )
        return copies

    def _vectors(self, space: Space, pixels: Tensor, features: Tensor | None) -> Tensor:
        if space.name == "pixel":
            vectors = as_vectors(pixels)
        else:
            vectors = extract(self.extractor, pixels) if features is None else features
        return vectors if space.codes is None else space.codes.project(vectors)

    def panel(self, pixels: Tensor, copies: dict[str, Copies]) -> Tensor:
        """The samples nearest to the training set, nearest first: uint8, [rows, columns, C, H, W].

        Each row is a sample and its neighbours, as they are or as thumbnails of their codes;
        without both, all samples in one row.
        """
        nearest = copies["pixel" if "pixel" in copies else "feature"].samples
        order = nearest.distances[:, 0].argsort()[:PANEL_ROWS]
        shown = pixels[order][:, None]
        if self.dataset is not None:
            return torch.cat([shown, self.dataset.train.pixels[nearest.indices[order]]], 1)
        if self.codes is not None:
            blurred = self.codes.pixel.vectors(nearest.indices[order]).round().clamp(0, 255)
            blurred = blurred.to(torch.uint8).view(*nearest.indices[order].shape, *pixels.shape[1:])
            return torch.cat([shown, blurred], 1)
        return shown.transpose(0, 1)


def as_vectors(pixels: Tensor) -> Tensor:
    """uint8 images, [N, C, H, W] -> [N, d], float32."""
    return pixels.flatten(1).float()
