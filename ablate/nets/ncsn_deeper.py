"""NCSN deeper: a RefineNet with dilations, the paper's network for 28×28 grey images.

The paper names "NCSNDeeper" with dilated convolutions, five stages of residual blocks, five
conditional refine blocks and conditional normalisation, and cites Song & Ermon 2019
(arXiv:1907.05600). That is `NCSNdeeper` of github.com/ermongroup/ncsnv2 (models/ncsn.py): the
`CondRefineNetDeeperDilated` of github.com/ermongroup/ncsn with InstanceNorm++, and it is what the
paper's own code trains, with width 128 and ELU. It is not NCSNv2Deeper, whose norms are
unconditional. Written anew from the description. A linear layer on an embedding of log s replaces
the published tables, which have one row of scales and shifts for each of N steps (the "classes"
which the paper says its norms are conditioned on are these steps); `use_tables` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.nets.blocks import LevelEmbedding
from ablate.nets.config import Net
from ablate.nets.ddpmpp import halved
from ablate.nets.published import Condition, Constant, NearestStep, NoNorm, over_level, rescaled


class Stage(NamedTuple):
    multiple: int  # channels, in widths
    dilation: int = 1  # the stages without one halve the image, but for the first


STAGES = (Stage(1), Stage(2), Stage(2), Stage(4, dilation=2), Stage(4, dilation=4))


class InstanceNorm(nn.Module):
    """InstanceNorm++ with scale, alpha and shift given by the level:

    scale ∘ ((h - mean) / spread + alpha ∘ (mean - m) / v) + shift

    mean and spread are each channel's over the pixels, m and v those of the means over the
    channels: a plain instance norm removes the means, and with them the image's brightness.
    """

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.film = nn.Linear(embedding, 3 * channels)
        # much as the published tables start: scale and alpha N(1, 0.02²) over levels, shift 0
        scale_and_alpha, shift = self.film.weight.split([2 * channels, channels])
        nn.init.normal_(scale_and_alpha, std=0.02)
        nn.init.zeros_(shift)
        nn.init.ones_(self.film.bias[: 2 * channels])
        nn.init.zeros_(self.film.bias[2 * channels :])

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        scale, alpha, shift = self.film(embedding).chunk(3, 1)  # [B, C] each
        variance, mean = torch.var_mean(h, (2, 3), correction=0)
        v, m = torch.var_mean(mean, 1, keepdim=True)
        offset = shift + scale * alpha * (mean - m) * (v + 1e-5).rsqrt()
        factor = scale * (variance + 1e-5).rsqrt()
        centred = h - mean[:, :, None, None]
        return torch.addcmul(offset[:, :, None, None], centred, factor[:, :, None, None])


class Residual(nn.Module):
    """norm, ELU, convolution, twice. One that enters a stage halves the image or is dilated."""

    def __init__(
        self, inputs: int, outputs: int, embedding: int, dilation: int = 1, enters: bool = False
    ) -> None:
        super().__init__()
        self.halves = enters and dilation == 1
        self.norm_in, self.norm_mid = (InstanceNorm(inputs, embedding) for _ in range(2))
        self.conv_in = _conv(inputs, inputs, dilation)
        self.conv_out = _conv(inputs, outputs, dilation)
        self.skip: nn.Module = nn.Identity()
        if enters:
            one = nn.Conv2d(inputs, outputs, 1)  # behind the mean, which it commutes with
            self.skip = one if self.halves else _conv(inputs, outputs, dilation)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        inner = self.conv_in(functional.elu(self.norm_in(h, embedding)))
        inner = self.conv_out(functional.elu(self.norm_mid(inner, embedding)))
        if self.halves:
            h, inner = halved(h), halved(inner)
        out: Tensor = self.skip(h) + inner
        return out


class ConvUnit(nn.Module):
    """RefineNet's residual convolution unit: like Residual, with no offsets in it."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(InstanceNorm(channels, embedding) for _ in range(2))
        self.convs = nn.ModuleList(_conv(channels, channels, bias=False) for _ in range(2))

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        inner = h
        for norm, conv in zip(self.norms, self.convs, strict=True):
            inner = conv(functional.elu(norm(inner, embedding)))
        return h + inner


class ChainedPooling(nn.Module):
    """h + f(h) + g(f(h)): each link a norm, a mean over 5×5 pixels and a convolution."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.pool: Callable[..., Tensor] = functional.avg_pool2d
        self.norms = nn.ModuleList(InstanceNorm(channels, embedding) for _ in range(2))
        self.convs = nn.ModuleList(_conv(channels, channels, bias=False) for _ in range(2))

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        h = link = functional.elu(h)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            link = conv(self.pool(norm(link, embedding), 5, 1, 2))
            h = h + link
        return h


class Refine(nn.Module):
    """Adapts each input, sums them at the size of the first, pools, and convolves once more."""

    def __init__(self, inputs: Sequence[int], outputs: int, embedding: int, units: int) -> None:
        super().__init__()
        self.adapt = nn.ModuleList(_units(size, embedding, 2) for size in inputs)
        merged = inputs if len(inputs) > 1 else ()  # a single input is not fused
        self.fuse_norms = nn.ModuleList(InstanceNorm(size, embedding) for size in merged)
        self.fuse_convs = nn.ModuleList(_conv(size, outputs) for size in merged)
        self.pooling = ChainedPooling(outputs, embedding)
        self.units = _units(outputs, embedding, units)

    def forward(self, inputs: Sequence[Tensor], embedding: Tensor) -> Tensor:
        adapted = [_through(u, h, embedding) for u, h in zip(self.adapt, inputs, strict=True)]
        merged = zip(adapted, self.fuse_norms, self.fuse_convs, strict=False)  # none if single
        fused = [_resized(conv(norm(h, embedding)), inputs[0]) for h, norm, conv in merged]
        h = fused[0] + fused[1] if fused else adapted[0]
        return _through(self.units, self.pooling(h, embedding), embedding)


class NCSNDeeper(nn.Module):
    """Five stages of two residual blocks, and back through five refine blocks with skips.

    inputs, outputs: image channels in and out; width: channels of the first stage; embedding:
    entries of the level's embedding, width if None; classes: of labels, 0 for none.
    28×28 images become 14×14 and 7×7; the last two stages dilate instead of halving.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int = 128,
        embedding: int | None = None,
        classes: int = 0,
    ) -> None:
        super().__init__()
        e = embedding or width
        self.condition: Condition | None = None  # of a published variant
        self.rescales = self.divides = False
        self.conditioning = LevelEmbedding(e, classes=classes)
        self.stem = _conv(inputs, width)
        widths = [width * stage.multiple for stage in STAGES]
        self.stages = nn.ModuleList()
        for index, (before, here) in enumerate(pairwise([width, *widths])):
            dilation = STAGES[index].dilation
            first = Residual(before, here, e, dilation, enters=index > 0)
            self.stages.append(nn.ModuleList([first, Residual(here, here, e, dilation)]))
        self.refines = nn.ModuleList()
        coming: list[int] = []
        for index, here in reversed(list(enumerate(widths))):
            outwards = widths[max(index - 1, 0)]
            self.refines.append(Refine([here, *coming], outwards, e, 1 if index else 3))
            coming = [outwards]
        self.out_norm = InstanceNorm(width, e)
        self.out = _conv(width, outputs)

    def forward(self, image: Tensor, log_s: Tensor, labels: Tensor | None = None) -> Tensor:
        embedding = self.conditioning(log_s, labels)
        h = self.stem(rescaled(image) if self.rescales else image)
        kept = []
        for stage in self.stages:
            h = _through(stage, h, embedding)
            kept.append(h)
        coming: list[Tensor] = []
        for refine in self.refines:
            coming = [refine([kept.pop(), *coming], embedding)]
        out: Tensor = self.out(functional.elu(self.out_norm(coming[0], embedding)))
        return over_level(out, log_s) if self.divides else out


def _conv(inputs: int, outputs: int, dilation: int = 1, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=bias)


def _units(channels: int, embedding: int, count: int) -> nn.ModuleList:
    return nn.ModuleList(ConvUnit(channels, embedding) for _ in range(count))


def _through(units: nn.Module, h: Tensor, embedding: Tensor) -> Tensor:
    for unit in units.children():
        h = unit(h, embedding)
    return h


def _resized(h: Tensor, like: Tensor) -> Tensor:
    if h.shape[2:] == like.shape[2:]:
        return h
    return functional.interpolate(h, like.shape[2:], mode="bilinear", align_corners=True)


def use_tables(net: NCSNDeeper, rows: int) -> None:
    """NCSN: each norm has a table with a row for each step, in place of a linear layer."""
    net.condition = "k"
    net.add_module("conditioning", NearestStep())
    for norm in net.modules():
        if isinstance(norm, InstanceNorm):
            norm.add_module("film", nn.Embedding(rows, norm.film.out_features))


def use_constants(net: NCSNDeeper) -> None:
    """NCSNv2: norms that no level changes, none in the refine blocks, maxima, output over s."""
    net.condition, net.divides = "log s", True
    net.add_module("conditioning", NearestStep())  # which nothing reads
    for layer in net.refines.modules():
        for name, child in layer.named_children():
            if isinstance(child, InstanceNorm):
                layer.add_module(name, NoNorm())
        if isinstance(layer, ChainedPooling):
            layer.pool = functional.max_pool2d
    for norm in net.modules():
        if isinstance(norm, InstanceNorm):
            norm.add_module("film", Constant(norm.film.out_features // 3))


def build(config: Net, inputs: int, outputs: int) -> NCSNDeeper:
    """The registry's `ncsn-deeper`. Options for published weights: `table`, the rows of NCSN's
    tables; `constant`, for NCSNv2; `rescale`, whether it takes 2 x - 1."""
    options = config.read_options(table=0, constant=False, rescale=False)
    net = NCSNDeeper(inputs, outputs, config.width, classes=config.classes)
    if config.classes and (options["table"] or options["constant"]):
        raise ValueError("net.classes: published networks have none")
    if options["table"]:
        use_tables(net, options["table"])
    elif options["constant"]:
        use_constants(net)
    net.rescales = options["rescale"]
    return net
