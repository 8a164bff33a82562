"""Muon for the inner convolutions, AdamW for everything else.

torch.optim.Muon takes matrices only; a convolution's kernel is one too, [out, in·k·k], and that
is where nearly all of a U-Net's weights are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from ablate.models.recipe import Recipe

MUON_SHARE = 0.2
"""Size of an orthogonal update relative to AdamW's, so that one learning rate serves both."""


def orthogonalised(matrix: Tensor) -> Tensor:
    """Roughly the nearest matrix with orthonormal rows or columns."""
    return all_orthogonalised([matrix])[0]


def all_orthogonalised(matrices: Sequence[Tensor], steps: int = 5) -> list[Tensor]:
    """Orthogonalise matrices by quintic Newton-Schulz: X' = p(G) X with G = X Xᵀ, so G' = p G p.

    The iteration needs G alone, and X is multiplied once at the end: a kernel is several times as
    wide as high, and this is 2 to 3 times as fast. All G of one size are iterated together.
    """
    wides = [m if m.shape[0] <= m.shape[1] else m.T for m in matrices]
    grams = [wide @ wide.T for wide in wides]
    norms = [gram.trace().sqrt() + 1e-7 for gram in grams]
    results: list[Tensor] = list(matrices)
    for height in {len(gram) for gram in grams}:
        which = [index for index, gram in enumerate(grams) if len(gram) == height]
        gram = torch.stack([grams[index] / norms[index] ** 2 for index in which])
        product = factor = _factor(gram)
        for _ in range(steps - 1):
            gram = factor @ gram @ factor
            factor = _factor(gram)
            product = factor @ product
        for index, each in zip(which, product, strict=True):
            x = (each / norms[index]) @ wides[index]
            results[index] = x if wides[index] is matrices[index] else x.T
    return results


def _factor(gram: Tensor) -> Tensor:
    """p(G) = a + b G + c G²; Jordan 2024: fastest growth of small singular values."""
    factor = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
    factor.diagonal(dim1=1, dim2=2).add_(3.4445)
    return factor


class MuonAdamW(torch.optim.Optimizer):
    """An optimiser with two kinds of parameter groups, so that a checkpoint holds one state."""

    def __init__(
        self, muon: Iterable[Tensor], adamw: Iterable[Tensor], lr: float, weight_decay: float
    ) -> None:
        groups = [{"params": list(muon), "kind": "muon"}, {"params": list(adamw), "kind": "adamw"}]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the parameters that have gradients."""
        for group in self.param_groups:
            update = _muon if group["kind"] == "muon" else _adamw
            updated = [p for p in group["params"] if p.grad is not None]
            update(updated, [self.state[p] for p in updated], group["lr"], group["weight_decay"])


def _muon(
    parameters: list[Tensor],
    states: list[dict[str, Tensor]],
    lr: float,
    weight_decay: float,
    beta: float = 0.95,
) -> None:
    matrices = []
    for parameter, state in zip(parameters, states, strict=True):
        gradient = parameter.grad
        assert gradient is not None
        momentum = state.setdefault("momentum", torch.zeros_like(gradient))
        momentum.lerp_(gradient, 1 - beta)
        matrices.append(gradient.lerp(momentum, beta).flatten(1))  # Nesterov
    for parameter, change in zip(parameters, all_orthogonalised(matrices), strict=True):
        scale = MUON_SHARE * max(change.shape) ** 0.5
        parameter.mul_(1 - lr * weight_decay)
        parameter.add_(change.view(parameter.shape), alpha=-lr * scale)


def _adamw(
    parameters: list[Tensor], states: list[dict[str, Tensor]], lr: float, weight_decay: float
) -> None:
    for parameter, state in zip(parameters, states, strict=True):
        if not state:
            state["mean"], state["square"] = (torch.zeros_like(parameter) for _ in range(2))
            state["count"] = torch.zeros((), device=parameter.device)
    adamw(
        parameters,
        [p.grad for p in parameters if p.grad is not None],
        [state["mean"] for state in states],
        [state["square"] for state in states],
        [],
        [state["count"] for state in states],
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.99,
        lr=lr,
        weight_decay=weight_decay,
        eps=1e-8,
        maximize=False,
    )


def make_optimiser(net: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimiser: AdamW, or Muon for the convolutions between hidden layers.

    The first and the last convolution are AdamW's in both.
    """
    hidden = [
        p
        for name, p in net.named_parameters()
        if recipe.optimiser == "muon" and p.ndim == 4 and not name.startswith(("stem.", "out."))
    ]
    chosen = {id(p) for p in hidden}
    rest = [p for p in net.parameters() if id(p) not in chosen]
    return MuonAdamW(hidden, rest, recipe.rate, recipe.weight_decay)
