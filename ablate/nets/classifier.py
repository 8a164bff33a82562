"""A small classifier whose layers are a feature space for FID and KID.

The FID Inception was made for photographs at 299×299; on 8×8 digits its features mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def _layer(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Classifier(nn.Module):
    """3×3 convolutions, two at each width with a halving between widths, then the mean.

    The features are the pooled outputs of all layers, not only of the last, each brought to mean 0
    and spread 1 over the training images: a good classifier's last layer separates little but the
    classes, so Gaussian draws from each class would look like real images.
    """

    centre: Tensor
    spread: Tensor

    def __init__(
        self, channels: int, classes: int, widths: Sequence[int] = (32, 64), patch: int = 1
    ) -> None:
        super().__init__()
        self.patch = patch  # pixels folded into channels: a quarter of the work at 2
        sizes = [channels * patch**2, *widths]
        stages = []
        for index, (before, width) in enumerate(zip(sizes[:-1], widths, strict=True)):
            stages += [_layer(before, width, stride=1 if index == 0 else 2), _layer(width, width)]
        self.trunk = nn.Sequential(*stages)
        self.head = nn.Linear(widths[-1], classes)
        self.register_buffer("centre", torch.zeros(2 * sum(widths)))
        self.register_buffer("spread", torch.ones(2 * sum(widths)))

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.centre)

    def pooled(self, image: Tensor) -> Tensor:
        """Images in [-1, 1], [B, C, H, W] -> every layer's mean over pixels, [B, 2 Σ widths]."""
        means = []
        h = functional.pixel_unshuffle(image, self.patch)
        for layer in self.trunk:
            h = layer(h)
            means.append(h.mean((2, 3)))
        return torch.cat(means, 1)

    def features(self, image: Tensor) -> Tensor:
        """Images in [-1, 1], [B, C, H, W] -> standardised features, [B, width]."""
        return (self.pooled(image) - self.centre) / self.spread

    def forward(self, image: Tensor) -> Tensor:
        """Logits, [B, classes]."""
        out: Tensor = self.head(
            self.trunk(functional.pixel_unshuffle(image, self.patch)).mean((2, 3))
        )
        return out
