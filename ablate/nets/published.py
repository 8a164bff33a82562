"""Parts of published networks that ours replace, so that published weights fit exactly.

NCSN and NCSNv2 (github.com/ermongroup/ncsn, ncsnv2) and score_sde (github.com/yang-song/
score_sde_pytorch) differ from `ncsn-deeper` and `ddpm++` in how the noise level enters and, in
NCSN++, in how images are resampled. Written anew from the description.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.nets.blocks import LevelEmbedding

Condition = Literal["k", "log s"]
"""What a published network is conditioned on: the step, or the log of the noise level."""


def use_positions(embedding: LevelEmbedding) -> None:
    """Embed a step k as transformers embed a position: frequencies from 1 down to 1/10000."""
    count = len(embedding.frequencies)
    falls = math.log(10000) / max(1, count - 1)
    embedding.frequencies = torch.exp(torch.arange(count, dtype=torch.float32) * -falls)


def use_fourier_features(embedding: LevelEmbedding, spread: float = 16.0) -> None:
    """Embed log s by random frequencies that are no weights but belong to the network.

    spread: standard deviation of the frequencies over 2π, NCSN++'s.
    """
    drawn = nn.init.normal_(torch.empty_like(embedding.frequencies), std=2 * math.pi * spread)
    del embedding.frequencies
    embedding.frequencies = nn.Parameter(drawn, requires_grad=False)


class NearestStep(nn.Module):
    """The row of a table for a step k, [B]: the nearest whole number."""

    def forward(self, k: Tensor, labels: Tensor | None = None) -> Tensor:
        if labels is not None:
            raise ValueError("labels given to a network built with classes=0")
        return k.round().long()


class Constant(nn.Module):
    """The scale, alpha and shift of a norm that is the same at every level, [1, 3 C]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale, self.alpha = (
            nn.Parameter(nn.init.normal_(torch.empty(channels), 1, 0.02)) for _ in range(2)
        )
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, embedding: Tensor) -> Tensor:
        return torch.cat([self.scale, self.alpha, self.shift])[None]


class NoNorm(nn.Module):
    """Stands where a network has a norm and its variant has none."""

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        return h


def rescaled(image: Tensor) -> Tensor:
    """2 image - 1, as the public code does to images in [0, 1]."""
    return 2 * image - 1


def over_level(out: Tensor, log_s: Tensor) -> Tensor:
    """out / s: [B, C, H, W] by [B]."""
    return out / log_s.exp()[:, None, None, None]


def use_published_groups(net: nn.Module) -> None:
    """Give each group norm a group for every 4 channels, 32 at most.

    Ours has fewer where 32 has no common divisor with that number; at width 128 they are equal.
    """
    for layer in net.modules():
        if isinstance(layer, nn.GroupNorm):
            layer.num_groups = min(layer.num_channels // 4, 32)


# ---- NCSN++ resamples by the filter (1, 3, 3, 1)/8 in both directions


def _filter(h: Tensor) -> Tensor:
    """The filter for each channel by itself, [C, 1, 4, 4], of sum 1."""
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0], device=h.device, dtype=h.dtype) / 8
    return torch.outer(taps, taps).expand(h.shape[1], 1, 4, 4)


def filtered_half(h: Tensor) -> Tensor:
    """Half the size: filtered, then every second pixel."""
    return functional.conv2d(h, _filter(h), stride=2, padding=1, groups=h.shape[1])


def filtered_double(h: Tensor) -> Tensor:
    """Twice the size: zeros between the pixels, then filtered to the same brightness."""
    return functional.conv_transpose2d(h, 4 * _filter(h), stride=2, padding=1, groups=h.shape[1])


class FilteredConv(nn.Conv2d):
    """A filter and a 3×3 convolution of every second pixel, padded once for both."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, stride=2)

    def forward(self, h: Tensor) -> Tensor:
        smooth = functional.conv2d(h, _filter(h), padding=2, groups=h.shape[1])
        return super().forward(smooth)
