"""Means and covariances of a dataset in log space, for initialisations and preconditioning.

Vectors are flat, [d] with d = C·H·W.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Gaussian(NamedTuple):
    """N(mean, Σ variances_i u_i u_iᵀ + tail (1 - Σ u_i u_iᵀ)): low rank plus isotropic rest.

    A full covariance has rank d and does not use the tail.
    """

    mean: Tensor  # [d]
    basis: Tensor  # u_i as rows, [rank, d], orthonormal
    variances: Tensor  # [rank]
    tail: Tensor  # []

    def at(self, s: float, z: Tensor) -> Tensor:
        """Draws at noise level s from standard normal z, [B, d], which serves data and noise."""
        rest = (self.tail + s**2).sqrt()
        gain = (self.variances + s**2).sqrt() - rest
        # Row by row, each copied to an aligned address: the bits of a matrix product depend on
        # how many rows it has, those of a matrix-vector product on where the vector lies.
        along = torch.stack([((self.basis @ row.clone()) * gain) @ self.basis for row in z])
        return self.mean + rest * z + along

    def wiener(self, y: Tensor, s: Tensor) -> Tensor:
        """The best linear denoiser of y, [B, d], at noise levels s, [B, 1]."""
        centred = y - self.mean
        rest = self.tail / (self.tail + s**2)
        gain = self.variances / (self.variances + s**2) - rest
        return self.mean + rest * centred + ((centred @ self.basis.T) * gain) @ self.basis

    def wiener_error(self, s: Tensor) -> Tensor:
        """The mean error variance per pixel of `wiener`, for s of shape [B, 1] -> [B, 1]."""
        d, rank = self.mean.numel(), self.variances.numel()
        leading = (self.variances * s**2 / (self.variances + s**2)).sum(-1, keepdim=True)
        return (leading + (d - rank) * self.tail * s**2 / (self.tail + s**2)) / d

    def pixel_variance(self) -> Tensor:
        """The mean variance of a pixel, []."""
        d, rank = self.mean.numel(), self.variances.numel()
        return (self.variances.sum() + (d - rank) * self.tail) / d

    def to(self, *args: object) -> Gaussian:
        """The same in another dtype or on another device."""
        return Gaussian(*(part.to(*args) for part in self))  # type: ignore[call-overload]


def fit_gaussian(y: Tensor, rank: int) -> Gaussian:
    """Fit mean and covariance to the rows of y, [N, d], with `rank` directions and a tail."""
    y = y.double()
    d = y.shape[1]
    variances, vectors = torch.linalg.eigh(torch.cov(y.T))  # ascending
    variances = variances.clamp_min(0)
    rank = min(rank, d)
    tail = variances[: d - rank].mean() if rank < d else variances.new_zeros(())
    basis = vectors[:, d - rank :].flip(1).T.contiguous()
    return Gaussian(y.mean(0), basis, variances[d - rank :].flip(0), tail)


class Moments(NamedTuple):
    """What the initialisations use of a dataset."""

    everything: Gaussian
    classes: list[Gaussian]
    class_averages: Tensor  # pixel-space mean image of each class, x in [1, 2], [K, d]
    channels: int

    def to(self, *args: object) -> Moments:
        """The same in another dtype or on another device."""
        averages = self.class_averages.to(*args)  # type: ignore[call-overload]
        classes = [each.to(*args) for each in self.classes]
        return Moments(self.everything.to(*args), classes, averages, self.channels)


def fit_within(y: Tensor, basis: Tensor, rank: int) -> Gaussian:
    """Fit a Gaussian whose directions lie in the span of `basis`, [R, d].

    The eigenvalue problem is R×R, and only a rotation has to be stored.
    """
    y = y.double()
    mean = y.mean(0)
    inner = fit_gaussian(y @ basis.T, rank)
    d, fitted = y.shape[1], inner.variances.numel()
    rest = y.var(0).sum() - inner.variances.sum()
    tail = rest.clamp_min(0) / (d - fitted) if fitted < d else rest.new_zeros(())
    return Gaussian(mean, inner.basis @ basis, inner.variances, tail)


def fit_moments(x: Tensor, labels: Tensor, rank: int, class_rank: int) -> Moments:
    """Fit the moments of images x in [1, 2], [N, C, H, W], with labels, [N]."""
    flat = x.flatten(1)
    y = flat.double().log()
    members = [labels == k for k in range(int(labels.max()) + 1)]
    everything = fit_gaussian(y, rank)
    return Moments(
        everything=everything,
        classes=[fit_within(y[mask], everything.basis, class_rank) for mask in members],
        class_averages=torch.stack([flat[mask].mean(0) for mask in members]),
        channels=x.shape[1],
    )
