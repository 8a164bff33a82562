"""A number with its standard error, and what every image had to do with it.

To first order a metric is moved by the mean of what single images do to it, their influence. That
gives its standard error, and that of the difference between two sets of samples drawn from the
same random numbers: there sample i of one goes with sample i of the other, and what both share
cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Z95 = 1.959964
"""Of a normal law's 95 %."""

FIXED = torch.zeros(0, dtype=torch.float64)
"""In the place of influences: this set is taken as given."""


class Estimate(NamedTuple):
    value: float
    error: float  # standard error

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean over many such sets lies, 95 times of 100."""
        return self.value - Z95 * self.error, self.value + Z95 * self.error


class Measured(NamedTuple):
    value: float
    samples: Tensor  # influence of each sample, or of each part of them, up to a constant, [N]
    reference: Tensor = FIXED  # of each image of the other set, [M]
    pairs: float = 0.0  # variance that single images do not explain; the plain sum has it twice

    @property
    def estimate(self) -> Estimate:
        plain = _variance_of_mean(self.samples) + _variance_of_mean(self.reference)
        return Estimate(self.value, math.sqrt(max(plain - self.pairs, self.pairs)))


def mean_of(samples: Tensor) -> Measured:
    """The mean of one number a sample."""
    samples = samples.double()
    return Measured(float(samples.mean()), samples)


def mean_over_reference(reference: Tensor) -> Measured:
    """The mean of one number an image of the other set; the samples are taken as given."""
    reference = reference.double()
    return Measured(float(reference.mean()), FIXED, reference)


def pooled(parts: Sequence[Measured]) -> Measured:
    """The mean over sets of as many samples each, held against the same images."""
    count = len(parts)
    return Measured(
        sum(part.value for part in parts) / count,
        torch.cat([part.samples for part in parts]),
        torch.stack([part.reference for part in parts]).mean(0),
        sum(part.pairs for part in parts) / count**2,
    )


def paired_difference(a: Measured, b: Measured) -> Estimate:
    """a - b, where sample i of both comes from the same random numbers and the other set is one.

    Errs on the safe side where pairs count: what single images seem to do holds them twice.
    """
    if a.samples.shape != b.samples.shape or a.reference.shape != b.reference.shape:
        raise ValueError(
            f"not pairs: {len(a.samples)} and {len(b.samples)} samples against"
            f" {len(a.reference)} and {len(b.reference)} images"
        )
    plain = _variance_of_mean(a.samples - b.samples)
    plain += _variance_of_mean(a.reference - b.reference)
    return Estimate(a.value - b.value, math.sqrt(plain))


def _variance_of_mean(influences: Tensor) -> float:
    return float(influences.var() / len(influences)) if len(influences) else 0.0
