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
    recalls: Tensor  # real images that are in the ball of this sample alone, [N]
    covers: Tensor  # real images whose ball has this sample alone, [N]

    def measured(self) -> dict[str, Measured]:
        """Each mean with its influences. Precision and density take the real images as fixed."""
        return {
            "precision": mean_of(self.precision),
            "recall": _share(self.recall, self.recalls),
            "density": mean_of(self.density),
            "coverage": _share(self.coverage, self.covers),
        }


def _share(reached: Tensor, alone: Tensor) -> Measured:
    """The share of real images that samples reach, with the jackknife's influence of each sample.

    Without sample i the share falls by the images that it alone reaches. (A ball of recall would
    also grow when a neighbour goes; that is left out.)
    """
    of_images = mean_over_reference(reached)
    return of_images._replace(samples=(len(alone) - 1) * alone / len(reached))


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
    recalled, covered = _Reached(len(real)), _Reached(len(real))
    for rows in _pieces(len(samples)):
        for columns in _pieces(len(real)):
            distances = squared_distances(samples[rows], real[columns]).sqrt()
            in_real = distances <= real_radius[columns]
            balls[rows] += in_real.sum(1)
            covered.add(in_real, rows, columns)
            recalled.add(distances <= sample_radius[rows, None], rows, columns)
    count = len(samples)
    return Coverage(
        precision=balls > 0,
        recall=recalled.times > 0,
        density=balls / k,
        coverage=covered.times > 0,
        recalls=recalled.alone(count),
        covers=covered.alone(count),
    )


class _Reached:
    """How many samples reach each real image, and which one does where it is the only one."""

    def __init__(self, real: int) -> None:
        self.times = torch.zeros(real, dtype=torch.float64)
        self._places = torch.zeros(real, dtype=torch.float64)  # sum of the samples' places

    def add(self, reaches: Tensor, rows: slice, columns: slice) -> None:
        """reaches: whether samples `rows` reach real images `columns`, [n, m]."""
        reaches = reaches.double()
        places = torch.arange(rows.start, rows.start + len(reaches), dtype=torch.float64)
        self.times[columns] += reaches.sum(0)
        self._places[columns] += places @ reaches

    def alone(self, samples: int) -> Tensor:
        """The number of real images that each sample alone reaches, [samples]."""
        only = self._places[self.times == 1].long()
        return torch.bincount(only, minlength=samples).double()


def _pieces(count: int) -> list[slice]:
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def reference_radii(reference: Reference) -> Tensor:
    """The radii of the reference's balls, computed once."""
    return reference.once(f"radii-{K}", lambda: {"radii": radii(reference.features)})["radii"]


def measure(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The registry's `precision`, `recall`, `density` and `coverage` of samples' features."""
    radius = reference_radii(reference)
    return features_to_coverage(samples, reference.features, K, radius).measured()
