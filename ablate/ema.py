"""Power-function average of the weights over training (Karras et al. 2024, §3.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PowerEMA:
    """After step t the average weighs step τ by τ^gamma: a constant share of the run, any length.

    gamma = 16 remembers about the last 5 % of training, 7 about 10 %.
    """

    def __init__(self, model: nn.Module, gamma: float) -> None:
        self.gamma = gamma
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after `step` steps (counted from 1)."""
        keep = (1 - 1 / step) ** (self.gamma + 1)
        current = [p.detach() for _, p in model.named_parameters()]
        torch._foreach_lerp_(list(self.weights.values()), current, 1 - keep)

    def load(self, weights: dict[str, Tensor]) -> None:
        for name, value in self.weights.items():
            value.copy_(weights[name])
