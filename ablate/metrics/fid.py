"""Fréchet distance between Gaussians fitted to features (FID), in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured
from ablate.metrics.reference import Reference


class Statistics(NamedTuple):
    """The Gaussian fitted to features."""

    mean: Tensor  # [f]
    covariance: Tensor  # [f, f]


def features_to_statistics(features: Tensor) -> Statistics:
    """Features, [N, f] -> mean and covariance, the latter divided by N - 1."""
    features = features.double()
    return Statistics(features.mean(0), torch.cov(features.T))


def statistics_to_fid(a: Statistics, b: Statistics) -> float:
    """‖m_a - m_b‖² + tr(C_a + C_b - 2 (C_a^½ C_b C_a^½)^½).

    C_a C_b has the eigenvalues of R C_b Rᵀ for any R with C_a = Rᵀ R. That matrix is symmetric, so
    rounding cannot make them complex, as it does for the square root of C_a C_b in the reference
    implementation, and it is faster than the eigenvalues of a general 2,048×2,048 matrix, which
    take torchmetrics half a minute on a CPU.
    """
    root = _root(a.covariance)
    traces = a.covariance.trace() + b.covariance.trace()
    return _distance(a.mean - b.mean, traces, root @ b.covariance @ root.T)


def _root(covariance: Tensor) -> Tensor:
    """R with Rᵀ R = C: Cholesky's factor, or by eigenvectors if C is singular."""
    lower: Tensor
    lower, failed = torch.linalg.cholesky_ex(covariance)
    if not failed:
        return lower.T
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = vectors * values.clamp_min(0).sqrt()
    return root.T


def features_to_fid(samples: Tensor, reference: Statistics) -> float:
    """FID of the samples' features, [N, f].

    With fewer samples than features, X / √(N - 1) is a root of C_a, and the problem is N×N.
    """
    count, width = samples.shape
    if count > width:
        return statistics_to_fid(features_to_statistics(samples), reference)
    samples = samples.double()
    mean = samples.mean(0)
    root = (samples - mean) / (count - 1) ** 0.5
    traces = (root**2).sum() + reference.covariance.trace()
    return _distance(mean - reference.mean, traces, root @ reference.covariance @ root.T)


def _distance(apart: Tensor, traces: Tensor, inner: Tensor) -> float:
    """FID from the means' difference, tr C_a + tr C_b and a matrix with C_a C_b's eigenvalues."""
    cross = torch.linalg.eigvalsh(inner).clamp_min(0).sqrt().sum()
    return float((apart**2).sum() + traces - 2 * cross)


def measure_fid(samples: Tensor, reference: Tensor, statistics: Statistics) -> Measured:
    """FID at this number of samples, with the influence of every image of both sets.

    With T the map that takes one Gaussian to the other, x changes the distance by
    2 (m_a - m_b)·(x - m_a) + ‖x - m_a‖² - (x - m_a)ᵀ T (x - m_a), and y likewise with T⁻¹. For
    X / √(N - 1) = Q R, orthonormal columns in Q, and R C_b Rᵀ = U S² Uᵀ these are
    X T Xᵀ = (N - 1) Q U S Uᵀ Qᵀ and T⁻¹ = Rᵀ U S⁻¹ Uᵀ R, without a division by the root of an
    ill-conditioned matrix. `statistics` are the reference's.
    """
    a, b = samples.double(), reference.double() - statistics.mean
    count, width = a.shape
    mean = a.mean(0)
    a = a - mean
    apart = mean - statistics.mean
    if count > width:
        q, root = torch.linalg.qr(a / (count - 1) ** 0.5)
    else:
        q, root = torch.eye(count, dtype=torch.float64), a / (count - 1) ** 0.5
    values, vectors = torch.linalg.eigh(root @ statistics.covariance @ root.T)
    s = values.clamp_min(0).sqrt()
    mapped = (count - 1) * ((q @ vectors) ** 2 @ s)
    back = ((b @ (root.T @ vectors)) ** 2) @ torch.where(s > 1e-7 * s.amax(), 1 / s, 0.0)
    traces = (root**2).sum() + statistics.covariance.trace()
    return Measured(
        value=float((apart**2).sum() + traces - 2 * s.sum()),
        samples=2 * a @ apart + (a**2).sum(1) - mapped,
        reference=-2 * b @ apart + (b**2).sum(1) - back,
    )


def reference_statistics(reference: Reference) -> Statistics:
    """The reference's moments, computed once."""
    tensors = reference.once(
        "statistics", lambda: features_to_statistics(reference.features)._asdict()
    )
    return Statistics(**tensors)


def measure(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The registry's `fid` of samples' features, [N, f]."""
    return {"fid": measure_fid(samples, reference.features, reference_statistics(reference))}
