"""NCSN-Deeper of github.com/ermongroup/ncsn and ncsnv2 under its own names, at any width.

Written from the description, without code of ours: an import is right if both compute the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class PublicNorm(nn.Module):
    """InstanceNorm++; with rows its factors come from a table, else they are fixed."""

    def __init__(self, channels: int, rows: int) -> None:
        super().__init__()
        self.instance_norm = nn.InstanceNorm2d(channels)
        if rows:
            self.embed = nn.Embedding(rows, 3 * channels)
        else:
            self.alpha, self.gamma, self.beta = (
                nn.Parameter(torch.randn(channels)) for _ in range(3)
            )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if hasattr(self, "embed"):
            gamma, alpha, beta = self.embed(y)[..., None, None].chunk(3, 1)
        else:
            gamma, alpha, beta = (v[:, None, None] for v in (self.gamma, self.alpha, self.beta))
        means = x.mean((2, 3), keepdim=True)
        spread = (means.var(1, keepdim=True) + 1e-5).sqrt()
        plus = (means - means.mean(1, keepdim=True)) / spread
        out: Tensor = gamma * (self.instance_norm(x) + alpha * plus) + beta
        return out


class ConvMean(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv(x)
        mean: Tensor = sum(out[..., i::2, j::2] for i in (0, 1) for j in (0, 1)) / 4
        return mean


def dilated(inputs: int, outputs: int, dilation: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation)


class PublicResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, rows: int, dilation: int, down: bool) -> None:
        super().__init__()
        middle = inputs if down else outputs
        self.conv1 = dilated(inputs, middle, dilation)
        self.normalize2 = PublicNorm(middle, rows)
        self.conv2: nn.Module = dilated(middle, outputs, dilation)
        if down and dilation == 1:
            self.conv2 = ConvMean(middle, outputs, 3)
            self.shortcut: nn.Module = ConvMean(inputs, outputs, 1)
        elif down:
            self.shortcut = dilated(inputs, outputs, dilation)
        self.normalize1 = PublicNorm(inputs, rows)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.conv1(functional.elu(self.normalize1(x, y)))
        h = self.conv2(functional.elu(self.normalize2(h, y)))
        out: Tensor = h + (self.shortcut(x) if hasattr(self, "shortcut") else x)
        return out


class PublicUnits(nn.Module):
    """`count` residual units of two convolutions each; no norms without a table."""

    def __init__(self, channels: int, count: int, rows: int) -> None:
        super().__init__()
        self.count = count
        for i in range(1, count + 1):
            for j in (1, 2):
                if rows:
                    self.add_module(f"{i}_{j}_norm", PublicNorm(channels, rows))
                conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
                self.add_module(f"{i}_{j}_conv", conv)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        layers = dict(self.named_children())
        for i in range(1, self.count + 1):
            h = x
            for j in (1, 2):
                norm = layers.get(f"{i}_{j}_norm")
                h = layers[f"{i}_{j}_conv"](functional.elu(h if norm is None else norm(h, y)))
            x = x + h
        return x


class PublicMany(nn.Module):
    """The fusion (`msf`) or the chained pooling (`crp`): convolutions, and norms with a table."""

    def __init__(self, inputs: Sequence[int], outputs: int, rows: int, bias: bool) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(size, outputs, 3, padding=1, bias=bias) for size in inputs
        )
        self.norms = nn.ModuleList(PublicNorm(size, rows) for size in inputs if rows)

    def normed(self, index: int, x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.norms[index](x, y) if self.norms else x
        return out


class PublicRefine(nn.Module):
    def __init__(self, inputs: Sequence[int], outputs: int, rows: int, end: bool) -> None:
        super().__init__()
        self.adapt_convs = nn.ModuleList(PublicUnits(size, 2, rows) for size in inputs)
        self.output_convs = PublicUnits(outputs, 3 if end else 1, rows)
        if len(inputs) > 1:
            self.msf = PublicMany(inputs, outputs, rows, bias=True)
        self.crp = PublicMany([outputs] * 2, outputs, rows, bias=False)
        self.pool = nn.AvgPool2d(5, 1, 2) if rows else nn.MaxPool2d(5, 1, 2)

    def forward(self, inputs: Sequence[Tensor], y: Tensor) -> Tensor:
        adapted = [units(x, y) for units, x in zip(self.adapt_convs, inputs, strict=True)]
        h: Tensor = adapted[0]
        if len(adapted) > 1:
            size = inputs[0].shape[2:]
            h = torch.zeros(())
            for i, x in enumerate(adapted):
                x = self.msf.convs[i](self.msf.normed(i, x, y))
                h = h + functional.interpolate(x, size, mode="bilinear", align_corners=True)
        h = path = functional.elu(h)
        for i in (0, 1):
            path = self.crp.convs[i](self.pool(self.crp.normed(i, path, y)))
            h = h + path
        out: Tensor = self.output_convs(h, y)
        return out


class PublicNCSN(nn.Module):
    """NCSN-Deeper with tables of `rows` levels, or with rows = 0 NCSNv2-Deeper."""

    sigmas: Tensor

    def __init__(self, channels: int, width: int, rows: int, sigmas: Tensor) -> None:
        super().__init__()
        self.rows = rows
        if not rows:
            self.register_buffer("sigmas", sigmas)
        self.begin_conv = nn.Conv2d(channels, width, 3, padding=1)
        self.normalizer = PublicNorm(width, rows)
        self.end_conv = nn.Conv2d(width, channels, 3, padding=1)
        sizes = [width, width, 2 * width, 2 * width, 4 * width, 4 * width]
        for stage, dilation in zip(range(1, 6), (1, 1, 1, 2, 4), strict=True):
            first, here = sizes[stage - 1], sizes[stage]
            entering = PublicResidual(first, here, rows, dilation, down=stage > 1)
            blocks = [entering, PublicResidual(here, here, rows, dilation, down=False)]
            self.add_module(f"res{stage}", nn.ModuleList(blocks))
        coming: list[int] = []
        for index in range(1, 6):
            here, outwards = sizes[6 - index], sizes[5 - index]
            refine = PublicRefine([here, *coming], outwards, rows, end=index == 5)
            self.add_module(f"refine{index}", refine)
            coming = [outwards]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.begin_conv(x)
        layers = []
        for stage in range(1, 6):
            for block in self.get_submodule(f"res{stage}").children():
                h = block(h, y)
            layers.append(h)
        h = self.get_submodule("refine1")([layers.pop()], y)
        for index in range(2, 6):
            h = self.get_submodule(f"refine{index}")([layers.pop(), h], y)
        out: Tensor = self.end_conv(functional.elu(self.normalizer(h, y)))
        return out if self.rows else out / self.sigmas[y][:, None, None, None]
