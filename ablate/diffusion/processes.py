"""Forward processes dX = mu_t X dt + sigma_t X dW for t in [0, 1], in log space.

With y = log x every such process is a shifted Brownian motion:

    y_t = y_0 + m(t) + s(t) z,   m(t) = ∫(mu - sigma²/2) du,   s(t)² = ∫ sigma² du

so a process is fully described by its noise level s(t) and its shift m(t).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:  # torch is imported inside functions: settings are read without it
    from torch import Tensor

Drift = Callable[["Tensor"], "Tensor"] | float | None
"""mu_t as a function of t, a constant, or None for the paper's sigma_t²/2, which makes m = 0."""

CHI_STEPS = 1000
"""chi is the factor on kappa per 1/1000 of the time, for every grid; 1000 is the paper's N."""

Time = TypeVar("Time", float, "Tensor")
"""A float, or a float64 tensor for many times at once."""


class Process(Protocol):
    """What the rest of the package uses of a process."""

    @property
    def mu(self) -> Drift: ...

    def volatility(self, t: Tensor) -> Tensor:
        """sigma_t."""

    def variance(self, t: Time) -> Time:
        """s(t)²."""

    def time(self, s: Tensor) -> Tensor:
        """The t at which the noise level is s."""


@dataclass(frozen=True)
class GBM:
    """Constant sigma: s(t) = sigma √t."""

    sigma: float
    mu: Drift = None

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise ValueError(f"sigma must be positive, not {self.sigma}")

    def volatility(self, t: Tensor) -> Tensor:
        return 0 * t + self.sigma

    def variance(self, t: Time) -> Time:
        return self.sigma**2 * t

    def time(self, s: Tensor) -> Tensor:
        return (s / self.sigma) ** 2


@dataclass(frozen=True)
class VEGBM:
    """Growing sigma_t = sigma_min (sigma_max/sigma_min)^t, the "variance exploding" schedule.

    The paper prints sigma_max in front of the power; its end points only fit sigma_min.
    """

    sigma_min: float
    sigma_max: float
    mu: Drift = None

    def __post_init__(self) -> None:
        if not 0 < self.sigma_min < self.sigma_max:
            raise ValueError(
                f"0 < sigma_min < sigma_max must hold, not {self.sigma_min}, {self.sigma_max}"
            )

    @property
    def log_ratio(self) -> float:
        return math.log(self.sigma_max / self.sigma_min)

    def volatility(self, t: Tensor) -> Tensor:
        return self.sigma_min * (self.log_ratio * t).exp()

    def variance(self, t: Time) -> Time:
        return self.sigma_min**2 * _expm1(2 * self.log_ratio * t) / (2 * self.log_ratio)

    def time(self, s: Tensor) -> Tensor:
        return (2 * self.log_ratio * (s / self.sigma_min) ** 2).log1p() / (2 * self.log_ratio)


def _expm1(value: Time) -> Time:
    return math.expm1(value) if isinstance(value, float) else value.expm1()


def level(process: Process, t: Time) -> Time:
    """The noise level s(t)."""
    s: Time = process.variance(t) ** 0.5
    return s


def drift(process: Process, t: Tensor) -> Tensor:
    """mu_t."""
    if process.mu is None:
        return process.volatility(t) ** 2 / 2
    return process.mu(t) if callable(process.mu) else 0 * t + process.mu


def shift(process: Process, t: Tensor) -> Tensor:
    """m(t), exact for the paper's and for constant drifts, else by 64 Gauss-Legendre nodes."""
    if process.mu is None:
        return 0 * t
    if not callable(process.mu):
        return process.mu * t - process.variance(t) / 2
    from numpy.polynomial.legendre import leggauss

    nodes, weights = (t.new_tensor(a) for a in leggauss(64))
    inside = t[..., None] * (nodes + 1) / 2
    return (t / 2) * (process.mu(inside) * weights).sum(-1) - process.variance(t) / 2


def forward(process: Process, x0: Tensor, t: Tensor, z: Tensor) -> Tensor:
    """Draw x_t given x_0 exactly; t broadcasts against x0, z is standard normal."""
    return x0 * (shift(process, t) + level(process, t) * z).exp()


def discrete_sums(process: Process, N: int) -> tuple[Tensor, Tensor]:
    """A_k and B_k, k = 0..N, of X_k = X_0 ∘ exp(delta A_k + √delta B_k Z), delta = 1/N.

    A_k = Σ_{j<k} (mu_j - sigma_j²/2) and B_k = √Σ_{j<k} sigma_j² with t_j = j/N: X_k is k steps
    away from X_0, so there are k summands (in the paper the index runs to k).
    """
    import torch

    t = torch.arange(N, dtype=torch.float64) / N
    variance = process.volatility(t) ** 2
    zero = torch.zeros(1, dtype=torch.float64)
    a = torch.cat([zero, (drift(process, t) - variance / 2).cumsum(0)])
    b = torch.cat([zero, variance.cumsum(0)]).sqrt()
    return a, b
