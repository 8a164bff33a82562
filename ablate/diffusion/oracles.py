"""Distributions with all scores in closed form, on which samplers are tested.

A log-normal mixture pushed forward to noise level s stays a log-normal mixture, its variances
raised by s². Shapes: y and x are [..., d], means and variances [K, d], weights [K].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LogNormalMixture:
    """y = log x is a mixture of K Gaussians with diagonal covariances."""

    weights: Tensor
    means: Tensor
    variances: Tensor

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw x_0, [count, d]."""
        k = torch.multinomial(self.weights, count, replacement=True, generator=generator)
        z = torch.randn(count, self.means.shape[1], generator=generator, dtype=self.means.dtype)
        return torch.exp(self.means[k] + self.variances[k].sqrt() * z)

    def _log_parts(self, y: Tensor, s: float) -> Tensor:
        """log(w_k N(y; mean_k, variance_k + s²)), [..., K]."""
        v = self.variances + s**2
        square = (y[..., None, :] - self.means) ** 2 / v
        return self.weights.log() - 0.5 * (square + torch.log(2 * math.pi * v)).sum(-1)

    def log_density_y(self, y: Tensor, s: float) -> Tensor:
        """log p(y) at noise level s, [...]."""
        return self._log_parts(y, s).logsumexp(-1)

    def log_density(self, x: Tensor, s: float) -> Tensor:
        """log p(x) = log p(y) - Σ y, [...]."""
        y = x.log()
        return self.log_density_y(y, s) - y.sum(-1)

    def log_score(self, y: Tensor, s: float) -> Tensor:
        """∇_y log p(y)."""
        parts = self._log_parts(y, s).movedim(-1, 0).contiguous()  # [K, ...]: torch is 14 times
        share = parts.softmax(0).movedim(0, -1)[..., None]  # as fast there as over few columns
        return (share * (self.means - y[..., None, :]) / (self.variances + s**2)).sum(-2)

    def hyvarinen(self, x: Tensor, s: float) -> Tensor:
        """x ∘ ∇_x log p(x) = ∇_y log p(y) - 1."""
        return self.log_score(x.log(), s) - 1

    def stein(self, x: Tensor, s: float) -> Tensor:
        """∇_x log p(x)."""
        return self.hyvarinen(x, s) / x

    def denoised(self, y: Tensor, s: float) -> Tensor:
        """E[y_0 | y] = y + s² ∇_y log p(y) (Tweedie)."""
        return y + s**2 * self.log_score(y, s)


def log_normal(mean: Tensor, variance: Tensor) -> LogNormalMixture:
    """One component: log x ~ N(mean, diag(variance)); both [d]."""
    return LogNormalMixture(torch.ones(1, dtype=mean.dtype), mean[None], variance[None])
