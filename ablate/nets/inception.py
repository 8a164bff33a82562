"""The FID Inception of 2015-12-05, rebuilt around its published weights for speed.

Batch norms are folded into the convolutions, and the 1×1 convolutions that open a block run as
one. A mean over 3×3 pixels commutes with a 1×1 convolution, so it is taken of the few channels
behind it instead of the many before. The features are those of the original to float32 rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZE, FEATURES = 299, 2048
Weights = Mapping[str, Tensor]
"""By the names of the original: mixed_4.tower.conv_1.weight, .beta, .mean, .var; each a layer of
convolution, batch norm without scale, and ReLU."""


def _folded(weights: Weights, *names: str, stride: int = 1, valid: bool = False) -> nn.Conv2d:
    """The convolutions called `names`, which have one input, as one; batch norms taken in."""
    kernels, biases = [], []
    for name in names:
        kernel, beta, mean, var = (
            weights[f"{name}.{p}"] for p in ("weight", "beta", "mean", "var")
        )
        gain = (var.double() + 1e-3).rsqrt()
        kernels.append(kernel.double() * gain[:, None, None, None])
        biases.append(beta.double() - mean.double() * gain)
    kernel = torch.cat(kernels)
    height, width = kernel.shape[2:]
    padding = (0, 0) if valid else (height // 2, width // 2)
    conv = nn.Conv2d(kernel.shape[1], kernel.shape[0], (height, width), stride, padding)
    with torch.no_grad():
        conv.weight.copy_(kernel)
        assert conv.bias is not None
        conv.bias.copy_(torch.cat(biases))
    return conv


class _Layers(nn.Sequential):
    """Convolutions with a ReLU behind each."""

    def forward(self, x: Tensor) -> Tensor:
        for conv in self:
            x = functional.relu(conv(x), inplace=True)
        return x


def _tower(weights: Weights, block: str, tower: str, first: int, last: int) -> _Layers:
    """Layers conv_first to conv_last of a tower."""
    return _Layers(*(_folded(weights, f"{block}.{tower}.conv_{k}") for k in range(first, last + 1)))


def _mean_pool(x: Tensor) -> Tensor:
    """Over the 3×3 pixels around each, of which there are fewer at the edge."""
    return functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class Entry(nn.Module):
    """1×1 convolutions of one input; with the mean over 3×3 pixels of the last one's."""

    def __init__(self, weights: Weights, *names: str, pooled: bool) -> None:
        super().__init__()
        self.conv = _folded(weights, *names)
        self.sizes = [len(weights[f"{name}.beta"]) for name in names]
        self.pooled = pooled

    def forward(self, x: Tensor) -> list[Tensor]:
        parts = list(self.conv(x).split(self.sizes, 1))
        if self.pooled:
            parts[-1] = _mean_pool(parts[-1])
        return [functional.relu(part) for part in parts]


class Mixed(nn.Module):
    """1×1, two towers of convolutions, and a pooled 1×1: the blocks that keep their size."""

    def __init__(self, weights: Weights, name: str, depths: tuple[int, int]) -> None:
        super().__init__()
        names = [f"{name}{part}.conv" for part in ("", ".tower", ".tower_1", ".tower_2")]
        self.entry = Entry(weights, *names, pooled=True)
        self.short = _tower(weights, name, "tower", 1, depths[0])
        self.long = _tower(weights, name, "tower_1", 1, depths[1])

    def forward(self, x: Tensor) -> Tensor:
        direct, short, long, pooled = self.entry(x)
        return torch.cat([direct, self.short(short), self.long(long), pooled], 1)


class Halving(nn.Module):
    """mixed_3: 35×35 -> 17×17."""

    def __init__(self, weights: Weights, name: str) -> None:
        super().__init__()
        self.direct = _Layers(_folded(weights, f"{name}.conv", stride=2, valid=True))
        self.tower = _Layers(
            _folded(weights, f"{name}.tower.conv"),
            _folded(weights, f"{name}.tower.conv_1"),
            _folded(weights, f"{name}.tower.conv_2", stride=2, valid=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.direct(x), self.tower(x), functional.max_pool2d(x, 3, 2)], 1)


class HalvingTwice(nn.Module):
    """mixed_8: 17×17 -> 8×8, by two towers."""

    def __init__(self, weights: Weights, name: str) -> None:
        super().__init__()
        towers = [f"{name}.tower", f"{name}.tower_1"]
        self.entry = Entry(weights, *(f"{tower}.conv" for tower in towers), pooled=False)
        self.short = _Layers(_folded(weights, f"{towers[0]}.conv_1", stride=2, valid=True))
        self.long = _Layers(
            _folded(weights, f"{towers[1]}.conv_1"),
            _folded(weights, f"{towers[1]}.conv_2"),
            _folded(weights, f"{towers[1]}.conv_3", stride=2, valid=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        short, long = self.entry(x)
        return torch.cat([self.short(short), self.long(long), functional.max_pool2d(x, 3, 2)], 1)


class Fork(nn.Module):
    """mixed_9 and mixed_10: towers that end in a 1×3 and a 3×1 convolution side by side.

    The last one pools by maxima: a slip of the original that the published weights know.
    """

    def __init__(self, weights: Weights, name: str, by_maxima: bool) -> None:
        super().__init__()
        names = [f"{name}.{part}" for part in ("conv", "tower_conv", "tower_1_conv")]
        pooled = f"{name}.tower_2_conv"
        self.entry = Entry(weights, *names, *([] if by_maxima else [pooled]), pooled=not by_maxima)
        self.pooled = _Layers(_folded(weights, pooled)) if by_maxima else None
        self.deeper = _Layers(_folded(weights, f"{name}.tower_1_conv_1"))
        ends = [f"{name}.tower{part}_mixed_conv" for part in ("", "_1")]
        self.ends = nn.ModuleList(
            _Layers(_folded(weights, f"{end}{part}")) for end in ends for part in ("", "_1")
        )

    def forward(self, x: Tensor) -> Tensor:
        direct, a, b, *rest = self.entry(x)
        pooled = rest[0] if self.pooled is None else self.pooled(functional.max_pool2d(x, 3, 1, 1))
        b = self.deeper(b)
        forked = [end(part) for end, part in zip(self.ends, (a, a, b, b), strict=True)]
        return torch.cat([direct, *forked, pooled], 1)


class Inception(nn.Module):
    """Images [B, 3, 299, 299], (uint8 - 128) / 128 -> [B, 2048]."""

    width = FEATURES

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.stem = _Layers(
            _folded(weights, "conv", stride=2, valid=True),
            _folded(weights, "conv_1", valid=True),
            _folded(weights, "conv_2"),
        )
        self.neck = _Layers(_folded(weights, "conv_3"), _folded(weights, "conv_4", valid=True))
        self.body = nn.Sequential(
            *(Mixed(weights, name, (1, 2)) for name in ("mixed", "mixed_1", "mixed_2")),
            Halving(weights, "mixed_3"),
            *(Mixed(weights, f"mixed_{k}", (2, 4)) for k in range(4, 8)),
            HalvingTwice(weights, "mixed_8"),
            Fork(weights, "mixed_9", by_maxima=False),
            Fork(weights, "mixed_10", by_maxima=True),
        )
        self.to(memory_format=torch.channels_last).eval().requires_grad_(False)

    def features(self, image: Tensor) -> Tensor:
        return self(image)  # type: ignore[no-any-return]

    def forward(self, image: Tensor) -> Tensor:
        h = image.contiguous(memory_format=torch.channels_last)
        h = functional.max_pool2d(self.stem(h), 3, 2)
        h = functional.max_pool2d(self.neck(h), 3, 2)
        out: Tensor = self.body(h).mean((2, 3))
        return out
