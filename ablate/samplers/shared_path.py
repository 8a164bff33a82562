"""The Brownian path of a literal run, summed up for the long steps that stand for it.

With the same path, a literal run and its exponential integrator differ by discretisation alone, so
a few samples show whether the two agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ablate.samplers.exponential import FineSteps


class SharedPath:
    """z of each long step, from the z of the literal run's steps.

    Over a long step the literal run adds Σ w_i z_i, where w_i is the noise of step i times all that
    later steps keep of it; z is this sum divided by √Σ w_i².
    """

    def __init__(
        self, fine: FineSteps, firsts: Sequence[int], literal: Callable[[int], Tensor]
    ) -> None:
        """literal: `literal(j)` is z of the literal run's step j, asked for in order."""
        self._fine, self._literal = fine, literal
        self._firsts = [*firsts, len(fine.s)]
        self._last = torch.zeros(())

    def __call__(self, step: int) -> Tensor:
        """z of a long step, asked for in order; zeros where all its steps are free of noise."""
        fine, total, variance = self._fine, torch.zeros(()), 0.0
        for i in range(self._firsts[step], min(self._firsts[step + 1], fine.walked)):
            total = fine.keep[i] * total + fine.noise[i] * self._literal(i)
            variance = fine.keep[i] ** 2 * variance + fine.noise[i] ** 2
        self._last = total / variance**0.5 if variance else torch.zeros_like(self._last)
        return self._last
