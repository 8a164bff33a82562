"""Are samples copies of training images? Their distances, compared with those of real images.

Held-out images are near the training set too, so a sample is suspect only if it is much nearer than
they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured, mean_of, mean_over_reference
from ablate.metrics.neighbours import Nearest, nearest

K = 10
"""Neighbours that are looked up for each sample."""

SUSPECT_SHARE = 0.001
"""A sample is suspect below MARGIN times this quantile of the held-out images' distances."""

MARGIN = 0.5


class Copies(NamedTuple):
    """How near samples are to training images."""

    samples: Nearest  # the k nearest training images of each sample, mirrored or not
    distances: Tensor  # from each sample, not mirrored, to its nearest training image, [N]
    heldout: Tensor  # from each held-out image to its nearest training image, [H]
    closer: Measured  # chance that a sample is nearer than a held-out image; 0.5 without copies
    c_t: float  # the same as a z-score (Meehan et al. 2020); below -3: copies, or too smooth
    authentic: Measured  # share whose neighbour has a nearer one in the training set (AuthPct)
    suspects: list[int]  # indices of suspect samples, nearest first

    def measured(self) -> dict[str, Measured]:
        """The numbers that have a standard error: all but C_T, a z-score, and the suspects."""
        return {
            "distance": mean_of(self.distances),
            "heldout": mean_over_reference(self.heldout),
            "closer": self.closer,
            "authentic": self.authentic,
        }

    def values(self, space: str) -> dict[str, float]:
        """All numbers by the names under which they are recorded: nn_feature_distance and so on."""
        numbers = {name: each.value for name, each in self.measured().items()}
        numbers |= {"c_t": self.c_t, "suspects": float(len(self.suspects))}
        return {f"nn_{space}_{name}": value for name, value in numbers.items()}


class Control(NamedTuple):
    """How near held-out images are to the training set; compute it once per space."""

    distances: Tensor  # from each held-out image to its nearest training image, [H]
    limit: float  # a sample nearer than this is suspect


def make_control(train: Tensor, heldout: Tensor) -> Control:
    """The control of vectors of training and held-out images, [M, d] and [H, d]."""
    distances = nearest(heldout, train).distances[:, 0]
    limit = MARGIN * torch.quantile(distances.double(), SUSPECT_SHARE)
    return Control(distances, float(limit))


class Space(NamedTuple):
    """Vectors that stand for images: their pixels, or an extractor's features."""

    name: str  # pixel or feature
    train: Tensor  # vectors of the training images, [M, d]
    control: Control
    mirrored: bool  # whether training mirrored images, so that a mirrored copy is a copy

    def protocol(self) -> dict[str, str | int]:
        """How the numbers of this space are measured, in words for the record."""
        return {
            "space": self.name,
            "training images": len(self.train),
            "held-out images": len(self.control.distances),
            "mirrored too": str(self.mirrored),
        }


def find_copies(
    samples: Tensor, train: Tensor, control: Control, k: int = K, mirror: Tensor | None = None
) -> Copies:
    """Compare vectors of samples, [N, d], with those of training images, [M, d].

    mirror: vectors of the mirrored samples, [N, d], if training mirrored images. Neighbours and
    suspects are then the nearest of both versions. `closer` and C_T use the plain samples only: the
    nearer of two versions would not be comparable with held-out images, whose mirrored features a
    bundle does not carry.
    """
    plain = nearest(samples, train, k)
    among_train = nearest(train[plain.indices[:, 0]], train, 2).distances[:, 1]  # 0 is itself
    distances = plain.distances[:, 0]
    neighbours = _with_mirror(plain, mirror, train, k)
    closest = neighbours.distances[:, 0]
    order = closest.argsort()
    return Copies(
        samples=neighbours,
        distances=distances,
        heldout=control.distances,
        closer=_chance_of_less(distances, control.distances),
        c_t=_z_score(distances, control.distances),
        authentic=mean_of(distances > among_train),
        suspects=order[closest[order] < control.limit].tolist(),
    )


def _with_mirror(plain: Nearest, mirror: Tensor | None, train: Tensor, k: int) -> Nearest:
    """The k nearest of a sample and its mirror image; a training image may occur twice."""
    if mirror is None:
        return plain
    other = nearest(mirror, train, k)
    distances = torch.cat([plain.distances, other.distances], 1)
    indices = torch.cat([plain.indices, other.indices], 1)
    distances, chosen = distances.topk(k, largest=False)
    return Nearest(distances, indices.gather(1, chosen))


def _share_below(values: Tensor, among: Tensor) -> Tensor:
    """For each value, the share of `among` below it; ties count half."""
    ordered = among.sort().values
    left = torch.searchsorted(ordered, values.contiguous())
    right = torch.searchsorted(ordered, values.contiguous(), right=True)
    return (left + right).double() / (2 * len(ordered))


def _chance_of_less(a: Tensor, b: Tensor) -> Measured:
    """P(a < b), with DeLong's standard error."""
    above, below = _share_below(-a, -b), _share_below(b, a)
    return Measured(float(above.mean()), above, below)


def _z_score(a: Tensor, b: Tensor) -> float:
    """Mann and Whitney's z: P(b < a) - ½ in units of its spread under equal laws."""
    n, m = len(a), len(b)
    u = float(_share_below(a, b).sum()) * m
    return (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
