"""Fidelity and diversity apart: precision, recall, density and coverage of features.

Precision and recall as in Kynkäänniemi et al. 2019, density and coverage as in Naeem et al. 2020:
a set's support is the union of balls around its members, each as wide as its k-th neighbour is far.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured, mean_of, mean_over_reference
from ablate.metrics.neighbours import PIECE, nearest, squared_distances
from ablate.metrics.reference import Reference

K = 5


class Coverage(NamedTuple):
    """Of each sample or real image one number; their means are the metrics."""

    precision: Tensor  # is a sample within the real support, [N]
    recall: Tensor  # is a real image within the samples' support, [M]
    density: Tensor  # in how many real balls is a sample, of the k expected, [N]
    coverage: Tensor  # has a real image a sample in its ball, [M]

    def measured(self) -> dict[str, Measured]:
        """Each mean, with the error over the set it is taken over; the other is as given."""
        return {
            "precision": mean_of(self.precision),
            "recall": mean_over_reference(self.recall),
            "density": mean_of(self.density),
            "coverage": mean_over_reference(self.coverage),
        }


def radii(features: Tensor, k: int = K) -> Tensor:
    """How wide the ball around each member is, [N]; a reference's are worth computing once."""
    return nearest(features, features, k, same=True).distances[:, -1]


def features_to_coverage(
    samples: Tensor, real: Tensor, k: int = K, real_radius: Tensor | None = None
) -> Coverage:
    """Features [N, f] and [M, f]; `real_radius` is the real ones' `radii`, if it is at hand."""
    real_radius = radii(real, k) if real_radius is None else real_radius
    sample_radius = radii(samples, k)
    balls = torch.zeros(len(samples), dtype=torch.float64)  # real ones that hold a sample
    recall = torch.zeros(len(real), dtype=torch.bool)
    covered = torch.zeros(len(real), dtype=torch.bool)
    for rows in _pieces(len(samples)):
        for columns in _pieces(len(real)):
            distances = squared_distances(samples[rows], real[columns]).sqrt()
            in_real = distances <= real_radius[columns]
            balls[rows] += in_real.sum(1)
            covered[columns] |= in_real.any(0)
            recall[columns] |= (distances <= sample_radius[rows, None]).any(0)
    return Coverage(balls > 0, recall, balls / k, covered)


def _pieces(count: int) -> list[slice]:
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def reference_radii(reference: Reference) -> Tensor:
    """The radii of the reference's balls, computed once."""
    return reference.once(f"radii-{K}", lambda: {"radii": radii(reference.features)})["radii"]


def measure(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The registry's `precision`, `recall`, `density` and `coverage` of samples' features."""
    known = reference.features, K, reference_radii(reference)
    return features_to_coverage(samples, *known).measured()
