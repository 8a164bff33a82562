"""Sets of features that tests of metrics share, and the simplest extractor."""

from __future__ import annotations

import math

from torch import Tensor, nn

from tests.support.beds import normal


def features(count: int, width: int, seed: int) -> Tensor:
    """Correlated features with a mean that is not zero, [count, width]."""
    mixing = normal((width, width), seed + 1) / math.sqrt(width)
    return 0.5 + normal((count, width), seed) @ mixing


class Flat(nn.Module):
    """The simplest extractor: a pixel is a feature."""

    num_features = 24

    def forward(self, image: Tensor) -> Tensor:
        return image.flatten(1)


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances of [N, d] and [M, d], one pair at a time, [N, M]."""
    table: Tensor = (a[:, None] - b[None]).double().norm(dim=2)
    return table
