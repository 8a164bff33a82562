"""DDPM++: the U-Net of score-based SDEs, the paper's network for CIFAR-10.

Published in Song et al. 2021, "Score-Based Generative Modeling through Stochastic Differential
Equations" (arXiv:2011.13456, appendix H), with its code: github.com/yang-song/score_sde_pytorch,
configs/vp/cifar10_ddpmpp_continuous.py (4 blocks at each resolution) and the "deep" one (8, which
the multiplicative paper's own code trains). Written anew from the description. Options make it the
published network with its embedding of time, or NCSN++ of the same publication.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.nets.blocks import Attention, LevelEmbedding, zeroed
from ablate.nets.config import Net
from ablate.nets.published import (
    Condition,
    FilteredConv,
    filtered_double,
    filtered_half,
    over_level,
    rescaled,
    use_fourier_features,
    use_positions,
    use_published_groups,
)

Resample = Callable[[Tensor], Tensor]
Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


def halved(h: Tensor) -> Tensor:
    """Means over 2×2 pixels; the last row and column of an odd size are halved alone."""
    return functional.avg_pool2d(h, 2, ceil_mode=True)


def grown(h: Tensor, like: Tensor) -> Tensor:
    """Each pixel four times, cut to the size of `like`."""
    return functional.interpolate(h, size=like.shape[2:])


def as_is(h: Tensor) -> Tensor:
    return h


class Block(nn.Module):
    """BigGAN's residual block, attention behind it where asked, sums divided by √2.

    A block that resamples does so before its first convolution, on both branches.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        embedding: int,
        dropout: float,
        resamples: bool = False,
        attends: bool = False,
    ) -> None:
        super().__init__()
        self.norm_in, self.norm_mid = _norm(inputs), _norm(outputs)
        self.conv_in = _conv(inputs, outputs)
        self.offset = _started(nn.Linear(embedding, outputs))
        self.dropout = nn.Dropout(dropout)
        self.conv_out = zeroed(_conv(outputs, outputs))
        plain = inputs == outputs and not resamples
        self.skip = nn.Identity() if plain else _conv(inputs, outputs, 1)
        self.attention = _attention(outputs) if attends else None

    def forward(self, h: Tensor, embedding: Tensor, resample: Resample = as_is) -> Tensor:
        inner = self.conv_in(resample(functional.silu(self.norm_in(h))))
        inner = inner + self.offset(embedding)[:, :, None, None]
        inner = self.conv_out(self.dropout(functional.silu(self.norm_mid(inner))))
        h = (self.skip(resample(h)) + inner) * math.sqrt(0.5)
        return h if self.attention is None else self.attention(h) * math.sqrt(0.5)


class DDPMpp(nn.Module):
    """Blocks on the way down and up, every output on the way down kept for the way up.

    inputs, outputs: image channels in and out; width: channels at full resolution; multiples: of
    it, at each resolution; blocks: at each resolution going down (one more going up), 4 in DDPM++
    and 8 in DDPM++ (deep); attention: after how many halvings (1: 16×16 of 32×32), besides the one
    at the bottom; classes: of labels, 0 for none. The level is embedded by log s, not by time.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int = 128,
        multiples: Sequence[int] = (1, 2, 2, 2),
        blocks: int = 4,
        attention: Sequence[int] = (1,),
        dropout: float = 0.1,
        classes: int = 0,
    ) -> None:
        super().__init__()
        if width % 4:
            raise ValueError(f"width must be a multiple of 4 (channels are normed), not {width}")
        self.condition: Condition | None = None  # of a published variant
        self.rescales = self.divides = self.filters = False
        self.pyramid = nn.ModuleList()  # NCSN++: the image at each resolution
        self.conditioning = LevelEmbedding(4 * width, width // 2, classes)
        for layer in self.conditioning.layers:
            if isinstance(layer, nn.Linear):
                _started(layer)
        block = partial(Block, embedding=4 * width, dropout=dropout)
        widths = [width * multiple for multiple in multiples]
        self.stem = _conv(inputs, width)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        kept, channels = [width], width
        for level, here in enumerate(widths):
            if level:
                self.shrink.append(block(channels, channels, resamples=True))
                kept.append(channels)
            sizes, attends = [channels, *[here] * (blocks - 1)], level in attention
            self.down.append(nn.ModuleList(block(size, here, attends=attends) for size in sizes))
            kept += [here] * blocks
            channels = here
        self.bottom = nn.ModuleList(block(channels, channels, attends=at) for at in (True, False))
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        for level, here in reversed(list(enumerate(widths))):
            if self.up:
                self.grow.append(block(channels, channels, resamples=True))
            stage = nn.ModuleList()
            for index in range(blocks + 1):
                attends = level in attention and index == blocks
                stage.append(block(channels + kept.pop(), here, attends=attends))
                channels = here
            self.up.append(stage)
        self.out_norm = _norm(channels)
        self.out = zeroed(_conv(channels, outputs))

    def forward(self, image: Tensor, log_s: Tensor, labels: Tensor | None = None) -> Tensor:
        embedding = self.conditioning(log_s, labels)
        image = rescaled(image) if self.rescales else image
        h = self.stem(image)
        kept = [h]
        for level, stage in enumerate(self.down):
            if level:
                h = self.shrink[level - 1](h, embedding, filtered_half if self.filters else halved)
                if self.pyramid:
                    h = image = (self.pyramid[level - 1](image) + h) * math.sqrt(0.5)
                kept.append(h)
            for block in stage.children():
                h = block(h, embedding)
                kept.append(h)
        for block in self.bottom:
            h = block(h, embedding)
        for level, stage in enumerate(self.up):
            if level:
                double = filtered_double if self.filters else partial(grown, like=kept[-1])
                h = self.grow[level - 1](h, embedding, double)
            for block in stage.children():
                h = block(torch.cat([h, kept.pop()], 1), embedding)
        out: Tensor = self.out(functional.silu(self.out_norm(h)))
        return over_level(out, log_s) if self.divides else out


def _norm(channels: int) -> nn.GroupNorm:
    """32 groups, fewer where that would leave less than 4 channels to each."""
    return nn.GroupNorm(math.gcd(channels // 4, 32), channels, eps=1e-6)


def _started(layer: Layer) -> Layer:
    """As DDPM starts: uniform, of variance one over the mean of fan in and fan out, no bias."""
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def _conv(inputs: int, outputs: int, kernel: int = 3) -> nn.Conv2d:
    return _started(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2))


def _attention(channels: int) -> Attention:
    """One head over all channels, queries, keys and values each starting at variance 0.1."""
    layer = Attention(channels, head=channels)
    layer.norm = _norm(channels)
    _started(layer.qkv)
    for part in layer.qkv.weight.chunk(3):  # three layers in one: each has its own fans
        nn.init.xavier_uniform_(part, gain=math.sqrt(0.1))
    return layer


EMBEDDINGS: dict[str, Condition] = {"time": "k", "fourier": "log s"}


def use_published(net: DDPMpp, embedding: str) -> None:
    """Embed the condition as published: time in DDPM++, log s by Fourier features in NCSN++."""
    if embedding not in EMBEDDINGS:
        raise ValueError(f"net.options: embedding must be time or fourier, not {embedding!r}")
    if net.conditioning.classes:
        raise ValueError("net.classes: published networks have none")
    net.condition = EMBEDDINGS[embedding]
    use_published_groups(net)
    if embedding == "time":
        use_positions(net.conditioning)
        return
    width = net.stem.out_channels
    net.conditioning = LevelEmbedding(4 * width, width)
    use_fourier_features(net.conditioning)


def add_pyramid(net: DDPMpp, inputs: int) -> None:
    """NCSN++: the image, convolved to half its size, is added at each lower resolution."""
    sizes = [inputs, *(block.conv_in.out_channels for block in _blocks(net.shrink))]
    net.pyramid.extend(FilteredConv(*pair) for pair in pairwise(sizes))


def _blocks(stage: nn.Module) -> list[Block]:
    return [block for block in stage.children() if isinstance(block, Block)]


def build(config: Net, inputs: int, outputs: int) -> DDPMpp:
    """The registry's `ddpm++`. Options for published weights: `embedding` = "time" (DDPM++) or
    "fourier" (NCSN++), `fir`, `pyramid` and `divide` (both of NCSN++) and `rescale` (2 x - 1)."""
    options = config.read_options(
        embedding="", fir=False, pyramid=False, divide=False, rescale=False
    )
    net = DDPMpp(
        inputs,
        outputs,
        config.width,
        blocks=config.blocks,
        dropout=config.dropout,
        classes=config.classes,
    )
    if options["embedding"]:
        use_published(net, options["embedding"])
    if options["pyramid"]:
        add_pyramid(net, inputs)
    net.filters, net.divides = options["fir"], options["divide"]
    net.rescales = options["rescale"]
    return net
