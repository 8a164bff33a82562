"""Fréchet distance between Gaussians fitted to features, in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Statistics(NamedTuple):
    mean: Tensor  # [f]
    covariance: Tensor  # [f, f]


def features_to_statistics(features: Tensor) -> Statistics:
    """[N, f] -> moments, the covariance with N - 1."""
    features = features.double()
    return Statistics(features.mean(0), torch.cov(features.T))


def statistics_to_fid(a: Statistics, b: Statistics) -> float:
    """‖m_a - m_b‖² + tr(C_a + C_b - 2 (C_a^½ C_b C_a^½)^½).

    The product is symmetric, so eigh serves, and rounding cannot bring in complex numbers as it
    does with the square root of C_a C_b that the reference implementation takes.
    """
    values, vectors = torch.linalg.eigh(a.covariance)
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    cross = torch.linalg.eigvalsh(root @ b.covariance @ root).clamp_min(0).sqrt().sum()
    traces = a.covariance.trace() + b.covariance.trace()
    return float(((a.mean - b.mean) ** 2).sum() + traces - 2 * cross)
