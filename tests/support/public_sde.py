"""DDPM++ and NCSN++ of github.com/yang-song/score_sde_pytorch under its own names, at any width.

Written from the description, without code of ours: an import is right if both compute the same.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(min(channels // 4, 32), channels, eps=1e-6)


def fir(x: Tensor, before: int, after: int, gain: float = 1.0) -> Tensor:
    """Pad, and correlate each channel with the outer product of (1, 3, 3, 1), of sum `gain`."""
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=x.dtype)
    kernel = gain * torch.outer(taps, taps) / 64
    padded = functional.pad(x, (before, after, before, after))
    flat = functional.conv2d(padded.flatten(0, 1)[:, None], kernel[None, None])
    return flat.view(*x.shape[:2], *flat.shape[2:])


def resampled(x: Tensor, way: str, filtered: bool) -> Tensor:
    b, c, height, width = x.shape
    if way == "down":
        if filtered:
            return fir(x, 1, 1)[..., ::2, ::2]
        return x.view(b, c, height // 2, 2, width // 2, 2).mean((3, 5))
    if not filtered:
        return x.repeat_interleave(2, 2).repeat_interleave(2, 3)
    spaced = torch.zeros(b, c, 2 * height, 2 * width, dtype=x.dtype)
    spaced[..., ::2, ::2] = x
    return fir(spaced, 2, 1, gain=4)


class NIN(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(channels, channels) / math.sqrt(channels))
        self.b = nn.Parameter(torch.randn(channels))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bihw,io->bohw", x, self.W) + self.b[:, None, None]


class PublicAttention(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.GroupNorm_0 = group_norm(channels)
        self.NIN_0, self.NIN_1, self.NIN_2, self.NIN_3 = (NIN(channels) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.GroupNorm_0(x)
        q, k, v = (nin(h).flatten(2) for nin in (self.NIN_0, self.NIN_1, self.NIN_2))
        weights = torch.softmax(q.transpose(1, 2) @ k / math.sqrt(x.shape[1]), -1)
        out: Tensor = (x + self.NIN_3((v @ weights.transpose(1, 2)).view_as(x))) / math.sqrt(2)
        return out


class PublicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, time: int, way: str, filtered: bool) -> None:
        super().__init__()
        self.way, self.filtered = way, filtered
        self.GroupNorm_0 = group_norm(inputs)
        self.Conv_0 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.Dense_0 = nn.Linear(time, outputs)
        self.GroupNorm_1 = group_norm(outputs)
        self.Conv_1 = nn.Conv2d(outputs, outputs, 3, padding=1)
        if inputs != outputs or way:
            self.Conv_2 = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = functional.silu(self.GroupNorm_0(x))
        if self.way:
            x, h = (resampled(each, self.way, self.filtered) for each in (x, h))
        h = self.Conv_0(h) + self.Dense_0(functional.silu(time))[:, :, None, None]
        h = self.Conv_1(functional.silu(self.GroupNorm_1(h)))
        out: Tensor = (h + (self.Conv_2(x) if hasattr(self, "Conv_2") else x)) / math.sqrt(2)
        return out


class PyramidStep(nn.Module):
    """A filter and a convolution with stride 2, called Conv2d_0."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.Conv2d_0 = nn.Conv2d(inputs, outputs, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.Conv2d_0(fir(x, 2, 2))
        return out


class Frequencies(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.W = nn.Parameter(16 * torch.randn(count), requires_grad=False)

    def forward(self, log_sigma: Tensor) -> Tensor:
        angle = 2 * math.pi * log_sigma[:, None] * self.W
        return torch.cat([angle.sin(), angle.cos()], 1)


class PublicSDE(nn.Module):
    """DDPM++ of time labels, or NCSN++ (continuous, residual input) of sigma; 8×8 images."""

    def __init__(self, channels: int, width: int, blocks: int, plus: bool) -> None:
        super().__init__()
        self.width, self.blocks, self.plus = width, blocks, plus
        self.register_buffer("sigmas", torch.linspace(3.0, 0.1, 10))
        sizes = [width, 2 * width, 2 * width, 2 * width]
        modules: list[Any] = [Frequencies(width)] if plus else []
        modules.append(nn.Linear(2 * width if plus else width, 4 * width))
        modules += [nn.Linear(4 * width, 4 * width), nn.Conv2d(channels, width, 3, padding=1)]
        kept, last, pyramid = [width], width, channels

        def block(inputs: int, outputs: int, way: str = "") -> None:
            modules.append(PublicBlock(inputs, outputs, 4 * width, way, filtered=plus))

        for level, here in enumerate(sizes):
            for _ in range(blocks):
                block(last, here)
                last = here
                kept.append(here)
                if level == 1:
                    modules.append(PublicAttention(here))
            if level < 3:
                block(here, here, "down")
                if plus:
                    modules.append(PyramidStep(pyramid, here))
                    pyramid = here
                kept.append(here)
        block(last, last)
        modules.append(PublicAttention(last))
        block(last, last)
        for level in (3, 2, 1, 0):
            for _ in range(blocks + 1):
                block(last + kept.pop(), sizes[level])
                last = sizes[level]
            if level == 1:
                modules.append(PublicAttention(last))
            if level:
                block(last, last, "up")
        modules += [group_norm(last), nn.Conv2d(last, channels, 3, padding=1)]
        self.all_modules = nn.ModuleList(modules)

    def embedded(self, condition: Tensor) -> Tensor:
        """Sines of the time, [B, width]; of log sigma in NCSN++, by its first module."""
        half = self.width // 2
        falls = math.log(10000) / (half - 1)
        frequencies = torch.exp(torch.arange(half, dtype=torch.float32) * -falls)
        angle = condition[:, None] * frequencies
        return torch.cat([angle.sin(), angle.cos()], 1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """condition: the time's label, or sigma in NCSN++."""
        modules = iter(self.all_modules)
        sines = next(modules)(condition.log()) if self.plus else self.embedded(condition)
        first, second, stem = next(modules), next(modules), next(modules)
        time = second(functional.silu(first(sines)))
        h, pyramid = stem(x), x
        kept = [h]
        for level in range(4):
            for _ in range(self.blocks):
                h = next(modules)(h, time)
                h = next(modules)(h) if level == 1 else h
                kept.append(h)
            if level < 3:
                h = next(modules)(h, time)
                if self.plus:
                    h = pyramid = (next(modules)(pyramid) + h) / math.sqrt(2)
                kept.append(h)
        h = next(modules)(h, time)
        h = next(modules)(h)
        h = next(modules)(h, time)
        for level in (3, 2, 1, 0):
            for _ in range(self.blocks + 1):
                h = next(modules)(torch.cat([h, kept.pop()], 1), time)
            h = next(modules)(h) if level == 1 else h
            h = next(modules)(h, time) if level else h
        norm, out = modules
        h = out(functional.silu(norm(h)))
        end: Tensor = h / condition[:, None, None, None] if self.plus else h
        return end
