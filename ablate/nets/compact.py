"""Compact: a small U-Net for CPUs and quick ablations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.nets.blocks import Attention, LevelEmbedding, ResidualBlock, activated, norm, zeroed
from ablate.nets.config import Net


class Compact(nn.Module):
    """Pixel-unshuffle stem, residual blocks on the way down and up, attention where it is coarse.

    inputs, outputs: image channels in and out; patch: pixels folded into channels by the stem;
    widths: channels at each resolution; blocks: residual blocks at each resolution, each way;
    classes: of labels, 0 for none; augmented: whether it is told how images were augmented;
    attention: resolutions with attention behind their blocks, from the coarsest on.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        widths: Sequence[int] = (48, 96),
        blocks: int = 2,
        patch: int = 1,
        dropout: float = 0.0,
        classes: int = 0,
        augmented: bool = False,
        attention: int = 1,
    ) -> None:
        super().__init__()
        self.patch = patch
        embedding = 4 * widths[0]
        self.level = LevelEmbedding(embedding, classes=classes, augmented=augmented)
        self.stem = nn.Conv2d(inputs * patch**2, widths[0], 3, padding=1)

        def stage(first: int, width: int) -> nn.ModuleList:
            sizes = [first, *[width] * (blocks - 1)]
            return nn.ModuleList(ResidualBlock(size, width, embedding, dropout) for size in sizes)

        def attends(level: int) -> nn.Module:
            return Attention(widths[level]) if len(widths) - level <= attention else nn.Identity()

        pairs, above = list(itertools.pairwise(widths)), range(len(widths) - 1)
        self.down = nn.ModuleList(stage(w, w) for w in widths[:-1])
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairs)
        self.bottom = stage(widths[-1], widths[-1])
        self.attention = attends(len(widths) - 1)
        self.grow = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in reversed(pairs))
        self.up = nn.ModuleList(stage(2 * w, w) for w in reversed(widths[:-1]))
        self.attention_down = nn.ModuleList(attends(level) for level in above)
        self.attention_up = nn.ModuleList(attends(level) for level in reversed(above))
        self.out_norm = norm(widths[0])
        self.out = zeroed(nn.Conv2d(widths[0], outputs * patch**2, 3, padding=1))

    def forward(
        self,
        image: Tensor,
        log_s: Tensor,
        labels: Tensor | None = None,
        maps: Tensor | None = None,
    ) -> Tensor:
        embedding = self.level(log_s, labels, maps)
        h = self.stem(functional.pixel_unshuffle(image, self.patch))
        skips = []
        for stage, attend, shrink in zip(self.down, self.attention_down, self.shrink, strict=True):
            h = attend(_through(stage, h, embedding))
            skips.append(h)
            h = shrink(h)
        h = self.attention(_through(self.bottom, h, embedding))
        for stage, attend, grow in zip(self.up, self.attention_up, self.grow, strict=True):
            skip = skips.pop()
            h = functional.interpolate(grow(h), size=skip.shape[2:])  # nearest; odd sizes too
            h = attend(_through(stage, torch.cat([h, skip], 1), embedding))
        return functional.pixel_shuffle(self.out(activated(self.out_norm(h))), self.patch)


def _through(stage: nn.Module, h: Tensor, embedding: Tensor) -> Tensor:
    for block in stage.children():
        h = block(h, embedding)
    return h


def build(config: Net, inputs: int, outputs: int) -> Compact:
    """The registry's `compact`."""
    shape = (config.widths, config.blocks, config.patch, config.dropout)
    told = (config.classes, config.augmented)
    return Compact(inputs, outputs, *shape, *told, attention=config.attention)
