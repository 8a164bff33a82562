"""The contract of a sampler's kernel, and what its one step works on.

A kernel is a pure function `(denoiser, state, level, z) -> (state, info)`. It has no loop, no
random numbers, no device and no progress bar of its own: `drive.py` owns those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.grids import Level

Denoiser = Callable[[Tensor, float], Tensor]
"""D(y; s) = E[y_0 | y_s = y] for y of shape [B, ...], of the process without its shift m(t)."""


class State(NamedTuple):
    """x = sign ∘ exp(y). Log space keeps both samplers exact where x spans many orders."""

    y: Tensor  # log|x|, [B, ...]
    sign: Tensor  # +1 or -1, [B, ...]

    @property
    def x(self) -> Tensor:
        return self.sign * self.y.exp()

    @staticmethod
    def of_log(y: Tensor) -> State:
        return State(y, torch.ones_like(y))


class Info(NamedTuple):
    """What one step tells its driver."""

    crossed: Tensor | None = None  # which entries changed their sign, [B, ...]


Kernel = Callable[[Denoiser, State, Level, Tensor], tuple[State, Info]]


def log_score(denoiser: Denoiser, y: Tensor, level: Level) -> Tensor:
    """∇_y log p(y) = (D(y - m; s) - (y - m)) / s²."""
    centred = y - level.shift
    return (denoiser(centred, level.s) - centred) / level.s**2


def hyvarinen(denoiser: Denoiser, y: Tensor, level: Level) -> Tensor:
    """x ∘ ∇_x log p(x) = ∇_y log p(y) - 1; at x < 0 that of the density's mirror image."""
    return log_score(denoiser, y, level) - 1
