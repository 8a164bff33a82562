"""Are samples copies of training images? Distances to these, held against what real images have.

A held-out image is near to the training set too: only what is nearer than such images are, and
nearer than training images are to one another, is suspect.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Estimate
from ablate.metrics.neighbours import Nearest, nearest

K = 10
SUSPECT_SHARE = 0.001
"""Suspect is what is nearer than all but so many held-out images, with the margin below."""

MARGIN = 0.5
"""And at half that distance or less."""


class Copies(NamedTuple):
    samples: Nearest  # the k nearest training images of each sample
    heldout: Tensor  # distance of each held-out image to its nearest, [H]
    closer: Estimate  # chance that a sample is nearer than a held-out image; 0.5 if all is well
    c_t: float  # the same as a z-score (Meehan et al. 2020): below -3 is copying
    authentic: float  # share whose neighbour has a nearer one in the training set (AuthPct)
    suspects: list[int]  # samples to look at, nearest first

    def means(self) -> dict[str, float]:
        distances = self.samples.distances[:, 0]
        return {
            "nn_distance": float(distances.mean()),
            "nn_distance_heldout": float(self.heldout.mean()),
            "nn_closer": self.closer.value,
            "nn_c_t": self.c_t,
            "nn_authentic": self.authentic,
            "nn_suspects": float(len(self.suspects)),
        }


def find_copies(
    samples: Tensor, train: Tensor, heldout: Tensor, k: int = K, mirror: Tensor | None = None
) -> Copies:
    """Vectors [N, d], [M, d] and [H, d]: pixels or features.

    mirror: the samples mirrored, [N, d], where the dataset is: a mirrored copy is a copy too.
    """
    found = _with_mirror(nearest(samples, train, k), mirror, train, k)
    control = nearest(heldout, train).distances[:, 0]
    own = nearest(train[found.indices[:, 0]], train, 2).distances[:, 1]  # 0 is itself
    distances = found.distances[:, 0]
    limit = MARGIN * torch.quantile(control.double(), SUSPECT_SHARE)
    order = distances.argsort()
    return Copies(
        samples=found,
        heldout=control,
        closer=_chance_of_less(distances, control),
        c_t=_z_score(distances, control),
        authentic=float((distances > own).double().mean()),
        suspects=order[distances[order] < limit].tolist(),
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


def _chance_of_less(a: Tensor, b: Tensor) -> Estimate:
    """P(a < b), with DeLong's standard error."""
    above, below = _share_below(-a, -b), _share_below(b, a)
    return Estimate(
        float(above.mean()), float((above.var() / len(a) + below.var() / len(b)).sqrt())
    )


def _z_score(a: Tensor, b: Tensor) -> float:
    """Mann-Whitney's: how far P(b < a) is from a half, in units of its spread if they are alike."""
    n, m = len(a), len(b)
    u = float(_share_below(a, b).sum()) * m
    return (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
