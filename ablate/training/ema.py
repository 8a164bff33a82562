"""Power-function averages of the weights over training (Karras et al. 2024, §3).

`PowerEMA` averages step by step. `Snapshots` of two averages allow any length after training.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ablate.core.errors import UserError

TRACKED = (16.97, 6.94)
"""gamma of the two averages that snapshots are taken of: lengths of 5 % and 10 % of the run."""

LONGEST = 0.28
"""Longest average that can be chosen. gamma = 0, the mean over the run, has 1/√12 = 0.289."""


class PowerEMA:
    """An average of the weights that, after step t, weighs step τ ≤ t by τ^gamma.

    Its length is a constant share of the run, however long that is: gamma = 16 remembers about
    the last 5 % of training, 7 about 10 %.
    """

    def __init__(self, model: nn.Module, gamma: float) -> None:
        self.gamma = gamma
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Include the weights after `step` steps (counted from 1)."""
        keep = (1 - 1 / step) ** (self.gamma + 1)
        current = [p.detach() for _, p in model.named_parameters()]
        torch._foreach_lerp_(list(self.weights.values()), current, 1 - keep)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Continue from averaged weights."""
        for name, value in self.weights.items():
            value.copy_(weights[name])


def length_of(gamma: float) -> float:
    """sigma_rel = √((γ+1) / ((γ+2)² (γ+3))): the profile's spread as a share of the run."""
    return float(((gamma + 1) / ((gamma + 2) ** 2 * (gamma + 3))) ** 0.5)


def gamma_of(length: float) -> float:
    """The inverse of `length_of`: the positive root of (γ+2)² (γ+3) = (γ+1) / sigma_rel²."""
    if not 0 < length <= LONGEST:
        raise UserError(f"--ema-length {length:g}: must be above 0 and at most {LONGEST}")
    t = length**-2
    return float(np.roots([1, 7, 16 - t, 12 - t]).real.max())


def profile(gamma: float, step: int, steps: int) -> Tensor:
    """The share of each step's weights in the average after `step`: float64, [steps].

    (τ^(γ+1) - (τ-1)^(γ+1)) / step^(γ+1), exactly what `PowerEMA` does; 0 after `step`.
    """
    at = (torch.arange(steps + 1, dtype=torch.float64) / step).clamp_max(1) ** (gamma + 1)
    return at.diff()


class Snapshot(NamedTuple):
    """A copy of an average during training."""

    gamma: float
    step: int
    weights: dict[str, Tensor]


def coefficients(taken: list[tuple[float, int]], gamma: float, steps: int) -> Tensor:
    """Coefficients of snapshots (gamma, step) in the average of `gamma` after `steps` (§3.2).

    Least squares between profiles, scaled to a sum of 1 so that constant weights stay as they are.
    """
    basis = torch.stack([profile(*one, steps) for one in taken], dim=1)  # [steps, snapshots]
    wanted = profile(gamma, steps, steps)[:, None]
    solution: Tensor = torch.linalg.lstsq(basis, wanted, driver="gelsd").solution[:, 0]
    return solution / solution.sum()


class Snapshots:
    """Two averages, and copies of both at `count` even intervals of the run; none if count is 0."""

    def __init__(self, model: nn.Module, steps: int, count: int) -> None:
        self.steps = steps
        self.averages = [PowerEMA(model, gamma) for gamma in TRACKED] if count else []
        self.due = {-(-steps * (k + 1) // count) for k in range(count)}
        self.taken: list[Snapshot] = []

    def update(self, model: nn.Module, step: int) -> None:
        """Include the weights after `step` steps, and copy the averages if that is due."""
        for average in self.averages:
            average.update(model, step)
            if step in self.due:
                self.taken.append(Snapshot(average.gamma, step, _on_cpu(average.weights)))

    def average(self, length: float) -> dict[str, Tensor]:
        """The weights averaged over any length (sigma_rel)."""
        x = coefficients([one[:2] for one in self.taken], gamma_of(length), self.steps).tolist()
        pairs = list(zip(x, self.taken, strict=True))
        return {
            name: torch.stack([a * one.weights[name].double() for a, one in pairs])
            .sum(0)
            .to(value.dtype)
            for name, value in self.taken[0].weights.items()
        }

    def state(self) -> dict[str, Any]:
        """The contents of a checkpoint."""
        return {
            "averages": [average.weights for average in self.averages],
            "taken": [list(one) for one in self.taken],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        for average, weights in zip(self.averages, state["averages"], strict=True):
            average.load(weights)
        self.taken = [Snapshot(g, step, _on_cpu(weights)) for g, step, weights in state["taken"]]


def _on_cpu(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.to("cpu", copy=True) for name, value in weights.items()}
