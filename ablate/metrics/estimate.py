"""A number with its standard error, and the influence of every image on it.

To first order a metric changes by the mean influence of single images. The spread of the influences
gives its standard error, and that of the difference between two sets of samples drawn from the same
random numbers: sample i of one set is paired with sample i of the other, and shared noise cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.core.quantiles import Z95

FIXED = torch.zeros(0, dtype=torch.float64)
"""The influences of a set that is taken as fixed."""


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float  # standard error

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the mean over many such sets."""
        return self.value - Z95 * self.error, self.value + Z95 * self.error


class Measured(NamedTuple):
    """A metric and the influence of every image on it."""

    value: float
    samples: Tensor  # influence of each sample, or of each piece of them, up to a constant, [N]
    reference: Tensor = FIXED  # influence of each image of the other set, [M]
    pairs: float = 0.0  # variance not due to single images; the sum over images has it twice

    @property
    def estimate(self) -> Estimate:
        """The value with its standard error."""
        plain = _variance_of_mean(self.samples) + _variance_of_mean(self.reference)
        return Estimate(self.value, math.sqrt(max(plain - self.pairs, self.pairs)))

    @property
    def sampling_error(self) -> float:
        """The standard error over sets of samples, compared with the same reference images.

        It is what a study's intervals hold: every configuration is compared with the same images.
        Where `pairs` matter it is too large, never too small. A metric that knows no influence of
        its samples gives its error over the reference instead.
        """
        of = self.samples if len(self.samples) else self.reference
        return math.sqrt(_variance_of_mean(of))


def mean_of(samples: Tensor) -> Measured:
    """The mean of one number per sample; the other set is taken as fixed."""
    samples = samples.double()
    return Measured(float(samples.mean()), samples)


def mean_over_reference(reference: Tensor) -> Measured:
    """The mean of one number per image of the other set; the samples are taken as fixed."""
    reference = reference.double()
    return Measured(float(reference.mean()), FIXED, reference)


def pooled(parts: Sequence[Measured]) -> Measured:
    """The mean over sets of equally many samples, compared with the same reference images."""
    count = len(parts)
    return Measured(
        sum(part.value for part in parts) / count,
        torch.cat([part.samples for part in parts]),
        torch.stack([part.reference for part in parts]).mean(0),
        sum(part.pairs for part in parts) / count**2,
    )


def paired_difference(a: Measured, b: Measured) -> Estimate:
    """a - b, if sample i of both comes from the same random numbers and the reference is the same.

    The error is too large, never too small, where `pairs` matter: influences count them twice.
    """
    if a.samples.shape != b.samples.shape or a.reference.shape != b.reference.shape:
        raise ValueError(
            f"not pairs: {len(a.samples)} and {len(b.samples)} samples against"
            f" {len(a.reference)} and {len(b.reference)} images"
        )
    return contrast([(1, a), (-1, b)])


def contrast(terms: Sequence[tuple[float, Measured]]) -> Estimate:
    """The sum of weight times metric over sets that are pairs, as in `paired_difference`.

    The influences are summed before their spread is taken, so shared noise cancels.
    """
    samples = torch.stack([weight * part.samples for weight, part in terms]).sum(0)
    reference = torch.stack([weight * part.reference for weight, part in terms]).sum(0)
    plain = _variance_of_mean(samples) + _variance_of_mean(reference)
    return Estimate(sum(weight * part.value for weight, part in terms), math.sqrt(plain))


def _variance_of_mean(influences: Tensor) -> float:
    return float(influences.var() / len(influences)) if len(influences) else 0.0
