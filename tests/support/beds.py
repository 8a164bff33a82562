"""Laws in closed form on which the maths is tested, and how far a sample is from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from ablate.diffusion.oracles import LogNormalMixture, log_normal

P_FOUR = math.erfc(4 / math.sqrt(2))
"""Chance of a normal variable beyond 4 standard errors, 6.3e-5: the level of every p-value."""


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@cache
def two_modes() -> LogNormalMixture:
    """One-dimensional, skewed, bimodal, inside [0, log 2] as the log of an image is."""
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    return LogNormalMixture(weights, column(0.10, 0.55), column(0.05**2, 0.08**2))


@cache
def one_mode() -> LogNormalMixture:
    return log_normal(torch.tensor([0.3]).double(), torch.tensor([0.1**2]).double())


@cache
def three_dimensions() -> LogNormalMixture:
    """Two components in R³, no two coordinates alike."""
    means = torch.tensor([[0.1, 0.4, 0.6], [0.5, 0.2, -0.3]], dtype=torch.float64)
    variances = torch.tensor([[0.02, 0.05, 0.01], [0.03, 0.01, 0.08]], dtype=torch.float64)
    return LogNormalMixture(torch.tensor([0.4, 0.6], dtype=torch.float64), means, variances)


@cache
def _distribution(oracle: LogNormalMixture) -> tuple[np.ndarray, np.ndarray]:
    """Points on the line and the distribution function of y_0 there; d = 1."""
    mean, spread = oracle.means[:, 0], oracle.variances[:, 0].sqrt()
    ends = float((mean - 9 * spread).min()), float((mean + 9 * spread).max())
    y = torch.linspace(*ends, 200_001, dtype=torch.float64)
    cdf = (oracle.weights * torch.special.ndtr((y[:, None] - mean) / spread)).sum(1)
    return y.numpy(), cdf.numpy()


def wasserstein(oracle: LogNormalMixture, y: Tensor) -> float:
    """W1 between a sample, [n, 1], and the law of y_0, by exact quantiles at (i + ½)/n."""
    points, cdf = _distribution(oracle)
    share = (np.arange(y.numel()) + 0.5) / y.numel()
    return float(np.abs(np.sort(y.flatten().numpy()) - np.interp(share, cdf, points)).mean())


@cache
def wasserstein_limit(oracle: LogNormalMixture, count: int) -> float:
    """A bound on W1 of `count` exact draws: its mean and 4 standard deviations at most.

    Its mean is at most ∫√(F (1 - F)/n) dy (Jensen), its standard deviation at most sd(y)/√n
    (Efron-Stein: replacing one draw by y' moves W1 by at most |y - y'|/n).
    """
    points, cdf = _distribution(oracle)
    mean = np.trapezoid(np.sqrt(np.clip(cdf * (1 - cdf), 0, None)), points)
    first, second = (np.trapezoid(points**k * np.gradient(cdf, points), points) for k in (1, 2))
    return float((mean + 4 * math.sqrt(second - first**2)) / math.sqrt(count))


def blocks(value: Callable[[slice], Tensor], count: int, size: int) -> tuple[float, float]:
    """Mean and standard error of a batch statistic over independent blocks of a sample."""
    values = torch.stack([value(slice(i, i + size)) for i in range(0, count, size)]).double()
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))
