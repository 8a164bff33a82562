"""FID extrapolated to infinitely many images, and its standard error."""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured
from ablate.metrics.fid import features_to_fid, features_to_statistics
from ablate.metrics.reference import Reference

PIECES = (1, 2, 4)
"""Numbers of pieces that FID∞ is extrapolated from: all images, halves and quarters. The registry
requires four images per feature, one in a quarter; with fewer the bias is not a power series."""

ERROR_PIECES = 8
"""Number of disjoint pieces from which the standard error is estimated."""

STUDENT_7_OVER_Z = 2.364624 / 1.959964
"""Turns the normal law's interval into that of Student's t, for the spread of eight values."""


def measure_fid_infinity(samples: Tensor, reference: Tensor) -> Measured:
    """FID without its bias of order 1/N and 1/N², and its standard error.

    FID of N samples and M reference images exceeds that of infinitely many by c/N + d/M and terms
    of second order. It is computed for both sets as a whole, for two disjoint halves and for
    quarters, after a shuffle, because files may be sorted by class. The mean over n pieces is
    a + b n + c n², and a is FID∞. To first order every such mean, and so a, changes by the mean
    influence of the images, whose error is that of the mean over eighths, which therefore take the
    place of influences. Their spread includes terms of second order.
    """
    samples, reference = _shuffled(samples), _shuffled(reference)
    means = torch.stack([_fid_of_pieces(samples, reference, n).mean() for n in PIECES])
    n = torch.tensor(PIECES, dtype=torch.float64)
    fit: Tensor = torch.linalg.solve(torch.stack([n**0, n, n**2], 1), means)
    eighths = _fid_of_pieces(samples, reference, ERROR_PIECES)
    return Measured(float(fit[0]), STUDENT_7_OVER_Z * eighths)


def _shuffled(features: Tensor) -> Tensor:
    """Shuffle rows, in the same way for all sets of one size, so that pairs stay pairs."""
    generator = torch.Generator().manual_seed(0)
    return features[torch.randperm(len(features), generator=generator)]


def _fid_of_pieces(samples: Tensor, reference: Tensor, n: int) -> Tensor:
    """FID of each of n disjoint pieces, [n], float64."""
    pairs = ((samples[k::n], reference[k::n]) for k in range(n))
    values = [features_to_fid(fake, features_to_statistics(real)) for fake, real in pairs]
    return torch.tensor(values, dtype=torch.float64)


def measure(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The registry's `fid_infinity` of samples' features, [N, f]."""
    return {"fid_infinity": measure_fid_infinity(samples, reference.features)}
