"""What sampling needs of a trained model, wherever it comes from: a bundle or a training."""

from __future__ import annotations

from typing import NamedTuple

from ablate.diffusion.moments import Moments
from ablate.nets.precondition import Model


class ScoreModel(NamedTuple):
    model: Model  # the denoiser D(y, s, labels)
    moments: Moments  # of the log data, float32
    shape: tuple[int, int, int]  # of an image, (C, H, W)
    classes: int = 0  # labels that the network is given; 0: none
