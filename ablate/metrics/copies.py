"""Are samples copies of training images? Their distances, compared with those of real images.

Held-out images are near the training set too, so a sample is suspect only if it is much nearer than
they are. A copy is found only if its training image is among those that are searched: where these
are a part of the training set, there are suspects, and no statistics that would look like an
acquittal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Measured, mean_of, mean_over_reference
from ablate.metrics.image_codes import Codes
from ablate.metrics.neighbours import Nearest, nearest

K = 10
"""Neighbours that are looked up for each sample."""

SUSPECT_SHARE = 0.001
"""A sample is suspect below MARGIN times this quantile of the held-out images' distances."""

MARGIN = 0.5


class Verdict(NamedTuple):
    """What a search of the whole training set says of samples; a part of it says nothing."""

    closer: Measured  # chance that a sample is nearer than a held-out image; 0.5 without copies
    c_t: float  # the same as a z-score (Meehan et al. 2020); below -3: copies, or too smooth
    authentic: Measured  # share whose neighbour has a nearer one in the training set (AuthPct)
    authentic_heldout: Measured  # the same of held-out images


class Copies(NamedTuple):
    """How near samples are to training images."""

    samples: Nearest  # the k nearest training images of each sample, mirrored or not
    distances: Tensor  # from each sample to its nearest training image, as the control's, [N]
    heldout: Tensor  # from each held-out image to its nearest training image, [H]
    searched: float | None  # share of the training set that was searched; None if not known
    verdict: Verdict | None  # None unless the whole training set was searched
    suspects: list[int]  # indices of suspect samples, nearest first

    def measured(self) -> dict[str, Measured]:
        """The numbers that have a standard error: all but C_T, a z-score, shares and suspects."""
        plain = {
            "distance": mean_of(self.distances),
            "heldout": mean_over_reference(self.heldout),
        }
        if self.verdict is None:
            return plain
        names = ("closer", "authentic", "authentic_heldout")
        return plain | {name: getattr(self.verdict, name) for name in names}

    def values(self, space: str) -> dict[str, float]:
        """All numbers by the names under which they are recorded: nn_feature_distance and so on."""
        numbers = {name: each.value for name, each in self.measured().items()}
        numbers |= {"suspects": float(len(self.suspects))}
        if self.searched is not None:
            numbers |= {"searched": self.searched}
        if self.verdict is not None:
            numbers |= {"c_t": self.verdict.c_t}
        return {f"nn_{space}_{name}": value for name, value in numbers.items()}

    def errors(self, space: str) -> dict[str, float]:
        """Standard errors over sets of samples, by the same names, of numbers that have one."""
        return {
            f"nn_{space}_{name}": each.sampling_error
            for name, each in self.measured().items()
            if len(each.samples)
        }


class Control(NamedTuple):
    """How near held-out images are to the training set; compute it once per space."""

    distances: Tensor  # from each held-out image to its nearest training image, [H]
    limit: float  # a sample nearer than this is suspect
    authentic: Measured  # AuthPct of the held-out images
    mirrored: bool  # whether a distance is that of the nearer of an image and its mirror image


def make_control(train: Tensor, heldout: Tensor, mirror: Tensor | None = None) -> Control:
    """The control of vectors of training and held-out images, [M, d] and [H, d].

    mirror: vectors of the mirrored held-out images, [H, d], if training mirrored images.
    """
    closest = _with_mirror(heldout, mirror, train, 1)
    distances = closest.distances[:, 0]
    limit = MARGIN * torch.quantile(distances.double(), SUSPECT_SHARE)
    authentic = mean_over_reference(_authentic(closest, train))
    return Control(distances, float(limit), authentic, mirror is not None)


class Space(NamedTuple):
    """Vectors that stand for images: their pixels, or an extractor's features."""

    name: str  # pixel or feature
    train: Tensor  # vectors of the training images, [M, d]
    control: Control
    mirrored: bool  # whether training mirrored images, so that a mirrored copy is a copy
    training_images: int | None  # in the whole training set; None if not known
    extractor: str = "none"  # name and hash of what made the vectors
    codes: Codes | None = None  # if the vectors are coordinates of codes

    @property
    def searched(self) -> float | None:
        """The share of the training set that `train` is."""
        return len(self.train) / self.training_images if self.training_images else None

    def protocol(self) -> dict[str, str | int]:
        """How the numbers of this space are measured, in words for the record."""
        words: dict[str, str | int] = {
            "space": self.name,
            "extractor": self.extractor,
            "searched training images": len(self.train),
            "of training images": self.training_images or "not known",
            "share searched": "not known" if self.searched is None else f"{self.searched:.3g}",
            "held-out images": len(self.control.distances),
            "mirrored too": str(self.mirrored),
        }
        if self.codes is not None:
            words["compressed"] = f"{len(self.codes.basis)} principal coordinates, int8"
        return words


def find_copies(
    samples: Tensor,
    train: Tensor,
    control: Control,
    k: int = K,
    mirror: Tensor | None = None,
    searched: float | None = 1.0,
) -> Copies:
    """Compare vectors of samples, [N, d], with those of training images, [M, d].

    mirror: vectors of the mirrored samples, [N, d], if training mirrored images. Neighbours and
        suspects are then the nearest of both versions. Statistics are too if the control's are;
        else they use the plain samples only, because the nearer of two versions is not comparable
        with one.
    searched: the share of the training set that `train` is.
    """
    neighbours = _with_mirror(samples, mirror, train, k)
    compared = neighbours if control.mirrored or mirror is None else nearest(samples, train)
    closest, distances = neighbours.distances[:, 0], compared.distances[:, 0]
    order = closest.argsort()
    verdict = None
    if searched is not None and searched >= 1:
        verdict = Verdict(
            closer=_chance_of_less(distances, control.distances),
            c_t=_z_score(distances, control.distances),
            authentic=mean_of(_authentic(compared, train)),
            authentic_heldout=control.authentic,
        )
    return Copies(
        samples=neighbours,
        distances=distances,
        heldout=control.distances,
        searched=searched,
        verdict=verdict,
        suspects=order[closest[order] < control.limit].tolist(),
    )


def _authentic(found: Nearest, train: Tensor) -> Tensor:
    """Whether an image is further from its nearest training image than that is from another."""
    among_train = nearest(train[found.indices[:, 0]], train, 2).distances[:, 1]  # 0 is itself
    return found.distances[:, 0] > among_train


def _with_mirror(images: Tensor, mirror: Tensor | None, train: Tensor, k: int) -> Nearest:
    """The k nearest of an image and its mirror image; a training image may occur twice."""
    if mirror is None:
        return nearest(images, train, k)
    both = nearest(torch.cat([images, mirror]), train, k)  # the training set is read once
    distances = torch.cat(both.distances.chunk(2), 1)
    indices = torch.cat(both.indices.chunk(2), 1)
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
