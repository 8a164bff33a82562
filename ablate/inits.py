"""Where a sampler starts: y at noise level s, drawn from u uniform, [B], and z normal, [B, d].

The class (or image) of a sample comes from u, everything else from z, so a start depends on
(seed, i) alone. The shift m(t) of a process is added by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.moments import Moments

PAPER_SIGMA = 0.8

PAPER_FITS: dict[str, tuple[list[float], list[float]]] = {
    "mnist": ([0.1565], [0.8353]),
    "kmnist": ([0.2140], [0.8290]),
    "fashion": ([0.2771], [0.8428]),
    "cifar10": ([0.4075, 0.3785, 0.3693], [0.8016, 0.8004, 0.8005]),
}
"""Table 2 of the paper: (mu, sigma) of log x at sigma = 0.8, by channel. They fit neither
the pushed-forward data nor the pushed-forward class averages; `lognormal-paper` as is."""


class Source(NamedTuple):
    """What a start may draw on. `images` and `paper_fit` are None where they are not at hand."""

    moments: Moments
    paper_fit: tuple[list[float], list[float]] | None = None
    images: Tensor | None = None  # y_0 of the training images, [N, d]


Init = Callable[[Source, float, Tensor, Tensor], Tensor]


def pick(u: Tensor, count: int) -> Tensor:
    """An index below `count` from u on [0, 1)."""
    return (u.double() * count).long().clamp_max(count - 1)


def class_average(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """The pixel-space mean image of a class, pushed forward."""
    averages = source.moments.class_averages
    return averages[pick(u, len(averages))].log() + s * z


def _iid(mean: Tensor, variance: Tensor, s: float, z: Tensor) -> Tensor:
    """One normal law per channel; mean and variance [C]."""
    pixels = z.shape[1] // len(mean)
    return mean.repeat_interleave(pixels) + (variance + s**2).sqrt().repeat_interleave(pixels) * z


def lognormal(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """iid over pixels, fitted by channel to pushed-forward data."""
    everything, channels = source.moments.everything, source.moments.channels
    spread = (everything.basis**2 * everything.variances[:, None]).sum(0)
    spread = spread + everything.tail * (1 - (everything.basis**2).sum(0))  # Var y by pixel
    means = everything.mean.view(channels, -1)
    variance = spread.view(channels, -1).mean(1) + means.var(1, correction=0)
    return _iid(means.mean(1), variance, s, z)


def lognormal_class(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """iid over pixels, fitted by channel to pushed-forward class averages."""
    averages = source.moments.class_averages.log()
    by_channel = averages.view(len(averages), source.moments.channels, -1)
    return _iid(by_channel.mean((0, 2)), by_channel.var((0, 2), correction=0), s, z)


def lognormal_paper(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """iid over pixels with the paper's printed figures, their excess over 0.8 kept at any s."""
    if source.paper_fit is None:
        raise ValueError("the paper prints no terminal fit for this dataset")
    mean, spread = (torch.tensor(part, dtype=z.dtype) for part in source.paper_fit)
    return _iid(mean, spread**2 - PAPER_SIGMA**2, s, z)


def gaussian(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """Mean and covariance of the log data, plus s²."""
    return source.moments.everything.at(s, z)


def class_gaussian(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """As `gaussian`, one for each class."""
    classes, chosen = source.moments.classes, pick(u, len(source.moments.classes))
    return torch.stack([classes[k].at(s, row[None])[0] for k, row in zip(chosen, z, strict=True)])


def forward_data(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """Training images pushed forward: an oracle that leaks data, to show what a start costs."""
    if source.images is None:
        raise ValueError("the training images are not at hand")
    return source.images[pick(u, len(source.images))] + s * z


INITS: dict[str, Init] = {
    "class-average": class_average,
    "lognormal": lognormal,
    "lognormal-class": lognormal_class,
    "lognormal-paper": lognormal_paper,
    "gaussian": gaussian,
    "class-gaussian": class_gaussian,
    "forward-data": forward_data,
}

LEAKS_DATA = frozenset({"forward-data"})
