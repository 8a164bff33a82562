"""Fidelity and diversity: precision, recall, density and coverage of features.

Precision and recall as in Kynkäänniemi et al. 2019, density and coverage as in Naeem et al. 2020.
The support of a set is the union of balls around its members, whose radius is the distance to the
k-th neighbour.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured, mean_of, mean_over_reference
from ablate.metrics.neighbours import PIECE, nearest, squared_distances
from ablate.metrics.reference import Reference

K = 5
"""The neighbour that decides the radius of a ball."""


class Coverage(NamedTuple):
    """One number for each sample or real image; their means are the metrics."""

    precision: Tensor  # whether a sample lies in the real support, [N]
    recall: Tensor  # whether a real image lies in the samples' support, [M]
    density: Tensor  # number of real balls that contain a sample, divided by k, [N]
    coverage: Tensor  # whether a real image has a sample in its ball, [M]

    def measured(self) -> dict[str, Measured]:
        """Each mean, with its error over the set it averages; the other set is taken as fixed."""
        return {
            "precision": mean_of(self.precision),
            "recall": mean_over_reference(self.recall),
            "density": mean_of(self.density),
            "coverage": mean_over_reference(self.coverage),
        }


def radii(features: Tensor, k: int = K) -> Tensor:
    """The radius of the ball around each member, [N]; compute a reference's only once."""
    return nearest(features, features, k, same=True).distances[:, -1]


def features_to_coverage(
    samples: Tensor, real: Tensor, k: int = K, real_radius: Tensor | None = None
) -> Coverage:
    """Features [N, f] and [M, f] -> Coverage.

    real_radius: `radii` of the real images, if they are computed already.
    """
    real_radius = radii(real, k) if real_radius is None else real_radius
    sample_radius = radii(samples, k)
    balls = torch.zeros(len(samples), dtype=torch.float64)  # real balls that contain a sample
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
    radius = reference_radii(reference)
    return features_to_coverage(samples, reference.features, K, radius).measured()
