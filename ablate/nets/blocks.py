"""Layers that several networks share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

MAP_NUMBERS = 6
"""Numbers that describe an affine map of the plane: four of its matrix, two of its shift."""


def zeroed(layer: nn.Conv2d) -> nn.Conv2d:
    """The layer with all weights zero, so that a residual branch starts as the identity."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def norm(channels: int) -> nn.GroupNorm:
    """A group norm of 8 groups, or of fewer if 8 does not divide the channels."""
    return nn.GroupNorm(math.gcd(channels, 8), channels)


def activated(h: Tensor) -> Tensor:
    """SiLU of a tensor that nothing else uses: in place where there is no gradient to follow.

    Evaluation then allocates less and stays in the cache; the bits are the same.
    """
    return functional.silu(h, inplace=not torch.is_grad_enabled())


def modulated(h: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    """h (1 + scale) + offset, like `activated` in place where there is no gradient."""
    if torch.is_grad_enabled():
        return h * (1 + scale) + offset
    return h.mul_(1 + scale).add_(offset)


def joined(skip: Tensor, branch: Tensor) -> Tensor:
    """skip + branch, like `activated` in place of the branch where there is no gradient."""
    if torch.is_grad_enabled() or skip.dtype != branch.dtype:
        return skip + branch
    return branch.add_(skip)


class LevelEmbedding(nn.Module):
    """An embedding of log s, [B] -> [B, width]: sines of fixed frequencies, then two layers.

    With `classes` a row for each label, [B], is added; label `classes` and None mean no class. With
    `augmented` the numbers of an affine map are told, too, [B, MAP_NUMBERS]; None means no map.
    """

    frequencies: Tensor

    def __init__(
        self, width: int, count: int = 16, classes: int = 0, augmented: bool = False
    ) -> None:
        super().__init__()
        self.classes = classes
        # log s spans about 7 units: from half a period over all of it to some 8 per unit
        self.register_buffer("frequencies", torch.logspace(-1, 2, count, base=4.0), False)
        self.layers = nn.Sequential(nn.Linear(2 * count, width), nn.SiLU(), nn.Linear(width, width))

        # one row more than classes, for images whose label was dropped
        self.labels = nn.Embedding(classes + 1, width) if classes else None
        if self.labels is not None:
            nn.init.normal_(self.labels.weight, std=0.1)  # about the spread of the level's entries
        self.maps = nn.Linear(MAP_NUMBERS, width, bias=False) if augmented else None
        if self.maps is not None:
            nn.init.zeros_(self.maps.weight)

    def forward(
        self, log_s: Tensor, labels: Tensor | None = None, maps: Tensor | None = None
    ) -> Tensor:
        angle = log_s[:, None] * self.frequencies
        embedding = functional.silu(self.layers(torch.cat([angle.sin(), angle.cos()], 1)))
        if maps is not None:
            if self.maps is None:
                raise ValueError("maps given to a network built without net.augmented")
            embedding = embedding + self.maps(maps)
        if self.labels is None:
            if labels is not None:
                raise ValueError("labels given to a network built with classes=0")
            return embedding
        if labels is None:
            labels = torch.full(log_s.shape, self.classes, device=log_s.device)
        out: Tensor = embedding + self.labels(labels)
        return out


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions; the noise level scales and shifts between them (FiLM)."""

    def __init__(self, inputs: int, outputs: int, embedding: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm_in, self.norm_mid = norm(inputs), norm(outputs)
        self.conv_in = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.film = nn.Linear(embedding, 2 * outputs)
        self.dropout = nn.Dropout(dropout)
        self.conv_out = zeroed(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        inner = self.conv_in(activated(self.norm_in(h)))
        scale, offset = self.film(embedding)[:, :, None, None].chunk(2, 1)
        inner = activated(modulated(self.norm_mid(inner), scale, offset))
        return joined(self.skip(h), self.conv_out(self.dropout(inner)))


class Attention(nn.Module):
    """Self-attention over the pixels, as a residual branch."""

    def __init__(self, channels: int, head: int = 32) -> None:
        super().__init__()
        self.head = math.gcd(channels, head)
        self.norm = norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = zeroed(nn.Conv2d(channels, channels, 1))

    def forward(self, h: Tensor) -> Tensor:
        b, c, height, width = h.shape
        split = self.qkv(self.norm(h)).reshape(b, 3, c // self.head, self.head, height * width)
        q, k, v = split.transpose(3, 4).unbind(1)  # [B, heads, pixels, head]
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return joined(h, self.out(mixed.transpose(2, 3).reshape(b, c, height, width)))
