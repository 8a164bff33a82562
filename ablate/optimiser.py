"""Muon for the inner convolutions, AdamW for everything else.

torch.optim.Muon takes matrices only; a convolution's kernel is one too, [out, in·k·k], and that
is where nearly all of a U-Net's weights are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MUON_SHARE = 0.2
"""Size of an orthogonal update against AdamW's, so that one learning rate serves both."""


def orthogonalised(matrix: Tensor, steps: int = 5) -> Tensor:
    """The nearest matrix with orthonormal rows or columns, roughly: Newton-Schulz, quintic."""
    a, b, c = 3.4445, -4.7750, 2.0315  # Jordan 2024: fastest growth of small singular values
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x: Tensor = wide / (wide.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


class MuonAdamW(torch.optim.Optimizer):
    """One optimiser with two kinds of groups, so that a checkpoint holds one state."""

    def __init__(
        self, muon: Iterable[Tensor], adamw: Iterable[Tensor], lr: float, weight_decay: float
    ) -> None:
        groups = [{"params": list(muon), "kind": "muon"}, {"params": list(adamw), "kind": "adamw"}]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            update = _muon if group["kind"] == "muon" else _adamw
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    change = update(self.state[parameter], parameter.grad)
                    parameter.add_(change, alpha=-group["lr"])


def _muon(state: dict[str, Tensor], gradient: Tensor, beta: float = 0.95) -> Tensor:
    momentum = state.setdefault("momentum", torch.zeros_like(gradient))
    momentum.lerp_(gradient, 1 - beta)
    matrix = gradient.lerp(momentum, beta).flatten(1)  # Nesterov
    scale = MUON_SHARE * max(matrix.shape) ** 0.5
    change: Tensor = scale * orthogonalised(matrix).view(gradient.shape)
    return change


def _adamw(state: dict[str, Any], gradient: Tensor) -> Tensor:
    beta1, beta2 = 0.9, 0.99
    mean: Tensor = state.setdefault("mean", torch.zeros_like(gradient))
    square: Tensor = state.setdefault("square", torch.zeros_like(gradient))
    count: int = state.get("count", 0) + 1
    state["count"] = count
    mean.lerp_(gradient, 1 - beta1)
    square.lerp_(gradient**2, 1 - beta2)
    return (mean / (1 - beta1**count)) / ((square / (1 - beta2**count)).sqrt() + 1e-8)


def make_optimiser(net: nn.Module, lr: float, weight_decay: float) -> MuonAdamW:
    """Muon for convolutions between hidden layers; not for the first and the last."""
    hidden = [
        p
        for name, p in net.named_parameters()
        if p.ndim == 4 and not name.startswith(("stem.", "out."))
    ]
    chosen = {id(p) for p in hidden}
    rest = [p for p in net.parameters() if id(p) not in chosen]
    return MuonAdamW(hidden, rest, lr, weight_decay)
