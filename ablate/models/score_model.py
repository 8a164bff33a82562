"""The part of a trained model that sampling needs, from a bundle or during training."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ablate.diffusion.moments import Moments
from ablate.nets.precondition import Model


class ScoreModel(NamedTuple):
    """A denoiser with the moments of its data."""

    model: Model  # the denoiser D(y, s, labels)
    moments: Moments  # of the log data, float32
    shape: tuple[int, int, int]  # of an image, (C, H, W)
    classes: int = 0  # number of labels the network is conditioned on; 0: none
    guides: Mapping[str, ScoreModel] = MappingProxyType({})  # other networks that may guide it

    def to(self, device: str) -> ScoreModel:
        """The same with all networks on a device."""
        guides = {name: guide.to(device) for name, guide in self.guides.items()}
        return self._replace(model=self.model.to(device), guides=guides)
