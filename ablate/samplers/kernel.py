"""The contract of a sampler's kernel, and the state that one step takes and returns.

A kernel is a pure function `(denoiser, state, level, z) -> (state, info)`. It has no loop, no
random numbers, no device and no progress bar: those belong to `drive.py`. A multistep solver keeps
its past in `state.memory`; a knob that only one sampler has is a keyword argument of its step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # torch is imported inside functions: settings are read without it
    from torch import Tensor

    from ablate.diffusion.grids import Level

Denoiser = Callable[["Tensor", float], "Tensor"]
"""D(y; s) = E[y_0 | y_s = y] for y of shape [B, ...], for the process without its shift m(t)."""


class State(NamedTuple):
    """x = sign ∘ exp(y). Logarithms keep relative precision where x spans many orders."""

    y: Tensor  # log|x|, [B, ...]
    sign: Tensor  # +1 or -1, [B, ...]
    memory: Any = None  # what a multistep solver keeps from step to step

    @property
    def x(self) -> Tensor:
        return self.sign * self.y.exp()

    @staticmethod
    def of_log(y: Tensor) -> State:
        """The positive state x = exp(y)."""
        return State(y, y.new_ones(y.shape))


class Info(NamedTuple):
    """What one step reports to its driver."""

    crossed: Tensor | None = None  # which entries changed sign, [B, ...]


Kernel = Callable[[Denoiser, State, "Level", "Tensor"], tuple[State, Info]]


def log_score(denoiser: Denoiser, y: Tensor, level: Level) -> Tensor:
    """∇_y log p(y) = (D(y - m; s) - (y - m)) / s²."""
    centred = y - level.shift
    return (denoiser(centred, level.s) - centred) / level.s**2


def hyvarinen(denoiser: Denoiser, y: Tensor, level: Level) -> Tensor:
    """x ∘ ∇_x log p(x) = ∇_y log p(y) - 1; at x < 0, of the density mirrored at 0."""
    return log_score(denoiser, y, level) - 1
