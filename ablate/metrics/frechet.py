"""Fréchet distance between Gaussians fitted to features (FID), in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Estimate


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
    traces = a.covariance.trace() + b.covariance.trace()
    return _distance(a.mean - b.mean, traces, root @ b.covariance @ root)


def features_to_fid(samples: Tensor, reference: Statistics) -> float:
    """The same from the samples' features, [N, f].

    With fewer samples than features C_a = XᵀX / (N - 1) has rank N - 1, and C_a C_b has the
    eigenvalues of X C_b Xᵀ / (N - 1): an N×N problem, and no root of an f×f matrix.
    """
    count, width = samples.shape
    if count > width:
        return statistics_to_fid(features_to_statistics(samples), reference)
    samples = samples.double()
    mean = samples.mean(0)
    root = (samples - mean) / (count - 1) ** 0.5  # C_a = rootᵀ root
    traces = (root**2).sum() + reference.covariance.trace()
    return _distance(mean - reference.mean, traces, root @ reference.covariance @ root.T)


def _distance(apart: Tensor, traces: Tensor, inner: Tensor) -> float:
    """From the means' difference, tr C_a + tr C_b, and a matrix with the eigenvalues of C_a C_b."""
    cross = torch.linalg.eigvalsh(inner).clamp_min(0).sqrt().sum()
    return float((apart**2).sum() + traces - 2 * cross)


LEVELS = 4
"""Sizes that FID∞ is extrapolated from: all, halves, quarters and eighths."""


def features_to_fid_infinity(samples: Tensor, reference: Tensor) -> Estimate:
    """FID with its bias of order 1/N and 1/N² taken out, and its standard error.

    FID of N samples and M reference images exceeds that of infinitely many by c/N + d/M and terms
    of second order. It is taken of all of both, of two disjoint halves of both, of quarters and of
    eighths; the mean over 2^k pieces is then a + b 2^k + c 4^k, and a is what is asked for. To
    first order every level's mean, and so a, is moved by the mean influence of the images, whose
    error is that of the mean over the eighths; their spread also holds what is of second order,
    so the error bar errs on the safe side.
    """
    pieces = [2**level for level in range(LEVELS)]
    found = [
        [
            features_to_fid(mine, features_to_statistics(theirs))
            for mine, theirs in zip(samples.chunk(n), reference.chunk(n), strict=True)
        ]
        for n in pieces
    ]
    means = torch.tensor([sum(each) / len(each) for each in found], dtype=torch.float64)
    n = torch.tensor(pieces, dtype=torch.float64)
    fit = torch.linalg.pinv(torch.stack([n**0, n, n**2], 1)) @ means
    spread = torch.tensor(found[-1], dtype=torch.float64).std()
    return Estimate(float(fit[0]), float(spread / pieces[-1] ** 0.5))
