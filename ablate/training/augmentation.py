"""Small affine maps of training images, whose parameters the network is told.

A network that is told how an image was changed learns the changed images without drawing them: at
sampling it is told that nothing was changed (Karras et al. 2022, appendix F.2).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ablate.nets.blocks import MAP_NUMBERS

STRETCH, SHIFT = 0.08, 0.06
"""Spread of the entries of the linear map around the identity, and of the shift in half images."""


def draw_maps(count: int, share: float, generator: torch.Generator) -> Tensor:
    """Numbers of unit spread that describe `count` maps, [count, MAP_NUMBERS]; zero is no change.

    share: of images that are changed at all.
    """
    numbers = torch.randn(count, MAP_NUMBERS, generator=generator)
    changed = torch.rand(count, 1, generator=generator) < share
    return numbers * changed


def apply_maps(y: Tensor, maps: Tensor) -> Tensor:
    """Images mapped as `maps`, [B, MAP_NUMBERS], say; bilinear, the edges continued outwards.

    Images that are not changed keep their bits.
    """
    linear = torch.eye(2, device=y.device) + STRETCH * maps[:, :4].view(-1, 2, 2)
    shift = SHIFT * maps[:, 4:].view(-1, 2, 1)
    grid = functional.affine_grid(torch.cat([linear, shift], 2), list(y.shape), align_corners=False)
    mapped = functional.grid_sample(y, grid, padding_mode="border", align_corners=False)
    unchanged = (maps == 0).all(1)
    return torch.where(unchanged[:, None, None, None], y, mapped)
