"""FID extrapolated to infinitely many images, and its standard error."""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured
from ablate.metrics.fid import features_to_fid, features_to_statistics
from ablate.metrics.reference import Reference

PIECES = (1, 2, 4)
"""Numbers of pieces that FID∞ is extrapolated from: all images, halves and quarters. The registry
asks for four images a feature, one in a quarter: with fewer the bias is not a power series."""

ERROR_PIECES = 8
"""Number of disjoint pieces from which the standard error is estimated."""

STUDENT_7_OVER_Z = 2.364624 / 1.959964
"""Makes the normal law's interval that of Student's t, for the spread of eight values."""


def measure_fid_infinity(samples: Tensor, reference: Tensor) -> Measured:
    """FID with its bias of order 1/N and 1/N² taken out, and its standard error.

    FID of N samples and M reference images exceeds that of infinitely many by c/N + d/M and terms
    of second order. It is taken of all of both, of two disjoint halves of both and of quarters,
    after a shuffle, for files may come class by class or class after class; the mean over n pieces
    is then a + b n + c n², and a is what is asked for. To first order every such mean, and so a, is
    moved by the mean influence of the images, whose error is that of the mean over eighths: these
    stand in the place of influences. Their spread also holds what is of second order.
    """
    samples, reference = _shuffled(samples), _shuffled(reference)
    means = torch.stack([_fid_of_pieces(samples, reference, n).mean() for n in PIECES])
    n = torch.tensor(PIECES, dtype=torch.float64)
    fit: Tensor = torch.linalg.solve(torch.stack([n**0, n, n**2], 1), means)
    eighths = _fid_of_pieces(samples, reference, ERROR_PIECES)
    return Measured(float(fit[0]), STUDENT_7_OVER_Z * eighths)


def _shuffled(features: Tensor) -> Tensor:
    """The same way for every set of one size, so that pairs stay pairs."""
    generator = torch.Generator().manual_seed(0)
    return features[torch.randperm(len(features), generator=generator)]


def _fid_of_pieces(samples: Tensor, reference: Tensor, n: int) -> Tensor:
    """[n], float64."""
    pairs = ((samples[k::n], reference[k::n]) for k in range(n))
    found = [features_to_fid(mine, features_to_statistics(theirs)) for mine, theirs in pairs]
    return torch.tensor(found, dtype=torch.float64)


def measure(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The registry's `fid_infinity` of samples' features, [N, f]."""
    return {"fid_infinity": measure_fid_infinity(samples, reference.features)}
