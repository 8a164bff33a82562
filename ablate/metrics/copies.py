"""Are samples copies of training images? Distances to these, held against what real images have.

A held-out image is near to the training set too: only what is nearer than such images are, and
nearer than training images are to one another, is suspect.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured, mean_of, mean_over_reference
from ablate.metrics.neighbours import Nearest, nearest

K = 10
SUSPECT_SHARE = 0.001
"""Suspect is what is nearer than all but so many held-out images, with the margin below."""

MARGIN = 0.5
"""And at half that distance or less."""


class Copies(NamedTuple):
    samples: Nearest  # the k nearest training images of each sample, mirrored or not
    distances: Tensor  # of each sample to its nearest, as it stands, [N]
    heldout: Tensor  # distance of each held-out image to its nearest, [H]
    closer: Measured  # chance that a sample is nearer than a held-out image; 0.5 if all is well
    c_t: float  # the same as a z-score (Meehan et al. 2020): below -3: copies, or too smooth
    authentic: Measured  # share whose neighbour has a nearer one in the training set (AuthPct)
    suspects: list[int]  # samples to look at, nearest first

    def measured(self) -> dict[str, Measured]:
        """All but C_T, a z-score, and the suspects, a list: these have no error of their own."""
        return {
            "distance": mean_of(self.distances),
            "heldout": mean_over_reference(self.heldout),
            "closer": self.closer,
            "authentic": self.authentic,
        }

    def values(self, space: str) -> dict[str, float]:
        """Every number by its name in a record: nn_feature_distance and so on."""
        found = {name: each.value for name, each in self.measured().items()}
        found |= {"c_t": self.c_t, "suspects": float(len(self.suspects))}
        return {f"nn_{space}_{name}": value for name, value in found.items()}


class Control(NamedTuple):
    """What real images that the network never saw have; worth computing once."""

    distances: Tensor  # of each held-out image to its nearest training image, [H]
    limit: float  # a sample nearer than this is suspect


def make_control(train: Tensor, heldout: Tensor) -> Control:
    distances = nearest(heldout, train).distances[:, 0]
    limit = MARGIN * torch.quantile(distances.double(), SUSPECT_SHARE)
    return Control(distances, float(limit))


class Space(NamedTuple):
    """Where images are near or far: pixels, or an extractor's features."""

    name: str  # pixel or feature
    train: Tensor  # what could have been copied, [M, d]
    control: Control
    mirrored: bool  # the dataset was, in training: a mirrored copy is a copy too

    def protocol(self) -> dict[str, str | int]:
        """How the numbers of this space are measured, in words for a record."""
        return {
            "space": self.name,
            "training images": len(self.train),
            "held-out images": len(self.control.distances),
            "mirrored too": str(self.mirrored),
        }


def find_copies(
    samples: Tensor, train: Tensor, control: Control, k: int = K, mirror: Tensor | None = None
) -> Copies:
    """Vectors [N, d] and [M, d]: pixels or features, as those of the control.

    mirror: the samples mirrored, [N, d], where the dataset was. Neighbours and suspects are then
    looked for both ways; what is held against held-out images is not, for two looks come nearer
    than one, and features of mirrored held-out images do not travel with a bundle.
    """
    plain = nearest(samples, train, k)
    own = nearest(train[plain.indices[:, 0]], train, 2).distances[:, 1]  # 0 is itself
    distances = plain.distances[:, 0]
    found = _with_mirror(plain, mirror, train, k)
    closest = found.distances[:, 0]
    order = closest.argsort()
    return Copies(
        samples=found,
        distances=distances,
        heldout=control.distances,
        closer=_chance_of_less(distances, control.distances),
        c_t=_z_score(distances, control.distances),
        authentic=mean_of(distances > own),
        suspects=order[closest[order] < control.limit].tolist(),
    )


def _with_mirror(found: Nearest, mirror: Tensor | None, train: Tensor, k: int) -> Nearest:
    """The k nearest of both ways to look at a sample; a training image may come twice."""
    if mirror is None:
        return found
    other = nearest(mirror, train, k)
    distances = torch.cat([found.distances, other.distances], 1)
    indices = torch.cat([found.indices, other.indices], 1)
    distances, chosen = distances.topk(k, largest=False)
    return Nearest(distances, indices.gather(1, chosen))


def _share_below(values: Tensor, among: Tensor) -> Tensor:
    """Of each value, the share of `among` below it; ties count half."""
    ordered = among.sort().values
    left = torch.searchsorted(ordered, values.contiguous())
    right = torch.searchsorted(ordered, values.contiguous(), right=True)
    return (left + right).double() / (2 * len(ordered))


def _chance_of_less(a: Tensor, b: Tensor) -> Measured:
    """P(a < b), with DeLong's standard error."""
    above, below = _share_below(-a, -b), _share_below(b, a)
    return Measured(float(above.mean()), above, below)


def _z_score(a: Tensor, b: Tensor) -> float:
    """Mann-Whitney's: how far P(b < a) is from a half, in units of its spread if they are alike."""
    n, m = len(a), len(b)
    u = float(_share_below(a, b).sum()) * m
    return (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
