"""Score-matching losses in log space: means over the batch of sums over pixels.

`model_hyvarinen` is the model's x ∘ ∇_x log p(x). Shapes: [B, d] or [B, C, H, W]; s and m
broadcast. Functions named `…_each` return the loss of every image, [B].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def mdsm_target(y_t: Tensor, y_0: Tensor, s: Tensor | float, m: Tensor | float = 0.0) -> Tensor:
    """The hyvarinen of p(x_t | x_0): -(1 + (y_t - y_0 - m(t)) / s(t)²)."""
    return -(1 + (y_t - y_0 - m) / s**2)


def mdsm(
    model_hyvarinen: Tensor,
    y_t: Tensor,
    y_0: Tensor,
    s: Tensor | float,
    m: Tensor | float = 0.0,
) -> Tensor:
    """Multiplicative denoising score matching: ½ E‖model - target‖²."""
    return mdsm_each(model_hyvarinen, y_t, y_0, s, m).mean()


def mdsm_each(
    model_hyvarinen: Tensor,
    y_t: Tensor,
    y_0: Tensor,
    s: Tensor | float,
    m: Tensor | float = 0.0,
) -> Tensor:
    """½ ‖model - target‖² of each image."""
    return _half_square(model_hyvarinen - mdsm_target(y_t, y_0, s, m))


def mesm(model_hyvarinen: Tensor, true_hyvarinen: Tensor) -> Tensor:
    """Multiplicative explicit score matching: ½ E‖model - x∘∇log p‖²."""
    return _half_square(model_hyvarinen - true_hyvarinen).mean()


def _half_square(residual: Tensor) -> Tensor:
    return 0.5 * (residual**2).flatten(1).sum(1)


def nonnegative(model_stein: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Hyvärinen 2007 for non-negative data: E[½‖x∘ψ‖² + Σ(2 x_i ψ_i + x_i² ∂_i ψ_i)].

    ψ is the model's stein. Equals M-ESM at t = 0 up to a constant, without the data's score.
    x: [B, d].
    """
    x = x.detach().requires_grad_()
    psi = model_stein(x)
    diagonal = torch.stack(
        [
            torch.autograd.grad(psi[:, i].sum(), x, create_graph=True)[0][:, i]
            for i in range(x.shape[1])
        ],
        dim=1,
    )  # ∂_i psi_i, exact: d backward passes
    return (0.5 * (x * psi) ** 2 + 2 * x * psi + x**2 * diagonal).sum(1).mean()


def preconditioned(denoised: Tensor, y_0: Tensor, error_variance: Tensor) -> Tensor:
    """E‖D(y; s) - y_0‖² / (d c_out²), near 1 at every noise level. error_variance: [B, 1]."""
    return preconditioned_each(denoised, y_0, error_variance).mean()


def preconditioned_each(denoised: Tensor, y_0: Tensor, error_variance: Tensor) -> Tensor:
    """‖D(y; s) - y_0‖² / (d c_out²) of each image."""
    return ((denoised - y_0) ** 2).flatten(1).mean(1) / error_variance[:, 0]
