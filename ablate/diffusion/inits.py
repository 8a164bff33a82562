"""Initialisations: where a sampler starts. To add one, write a function and add a record here.

A start is y at noise level s, drawn from u, uniform on [0, 1), [B], and z, standard normal, [B, d].
The class (or image) of a sample comes from u and everything else from z, so a start depends on
(seed, i) alone. The caller adds the shift m(t) of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ablate.core.registry import Registry

if TYPE_CHECKING:  # torch is imported inside functions: settings are read without it
    from torch import Tensor

    from ablate.diffusion.moments import Moments

PAPER_SIGMA = 0.8


class Source(NamedTuple):
    """What an initialisation may use; `paper_fit` and `images` are None if not available."""

    moments: Moments
    paper_fit: tuple[Sequence[float], Sequence[float]] | None = None  # mu and sigma by channel
    images: Tensor | None = None  # y_0 of the training images, [N, d]


Draw = Callable[[Source, float, "Tensor", "Tensor"], "Tensor"]


@dataclass(frozen=True)
class Init:
    """An initialisation.

    draw: `(source, s, u, z) -> y`, [B, d].
    leaks_data: whether it starts from training images; reports list such trials separately.
    needs_paper_fit: whether it needs the dataset's log-normal fit from the paper.
    """

    name: str
    about: str
    draw: Draw
    leaks_data: bool = False
    needs_paper_fit: bool = False


def pick(u: Tensor, count: int) -> Tensor:
    """An index below `count` from u on [0, 1)."""
    return (u.double() * count).long().clamp_max(count - 1)


def class_average(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """The mean image of a class, taken in pixel space, pushed forward to level s."""
    averages = source.moments.class_averages
    return averages[pick(u, len(averages))].log() + s * z


def _iid(mean: Tensor, variance: Tensor, s: float, z: Tensor) -> Tensor:
    """Independent pixels, with one normal law per channel; mean and variance: [C]."""
    pixels = z.shape[1] // len(mean)
    return mean.repeat_interleave(pixels) + (variance + s**2).sqrt().repeat_interleave(pixels) * z


def lognormal(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """Independent pixels, fitted by channel to pushed-forward data."""
    everything, channels = source.moments.everything, source.moments.channels
    spread = (everything.basis**2 * everything.variances[:, None]).sum(0)
    spread = spread + everything.tail * (1 - (everything.basis**2).sum(0))  # Var y by pixel
    means = everything.mean.view(channels, -1)
    variance = spread.view(channels, -1).mean(1) + means.var(1, correction=0)
    return _iid(means.mean(1), variance, s, z)


def lognormal_class(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """Independent pixels, fitted by channel to pushed-forward class averages."""
    averages = source.moments.class_averages.log()
    by_channel = averages.view(len(averages), source.moments.channels, -1)
    return _iid(by_channel.mean((0, 2)), by_channel.var((0, 2), correction=0), s, z)


def lognormal_paper(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """Independent pixels with the paper's fit at sigma = 0.8; other levels add s² - 0.8²."""
    if source.paper_fit is None:
        raise ValueError("the paper prints no terminal fit for this dataset")
    mean, spread = (z.new_tensor(part) for part in source.paper_fit)
    return _iid(mean, spread**2 - PAPER_SIGMA**2, s, z)


def gaussian(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """A Gaussian with the mean and covariance of log x, plus s²."""
    return source.moments.everything.at(s, z)


def class_gaussian(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """One such Gaussian for each class."""
    import torch

    classes, chosen = source.moments.classes, pick(u, len(source.moments.classes))
    return torch.stack([classes[k].at(s, row[None])[0] for k, row in zip(chosen, z, strict=True)])


def forward_data(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """Training images pushed forward: leaks data, and shows what the other starts cost."""
    if source.images is None:
        raise ValueError("the training images are not on this machine")
    return source.images[pick(u, len(source.images))] + s * z


INITS: Registry[Init] = Registry(
    "init",
    "ablate.inits",
    Init,
    [
        Init("class-average", "mean image of a class, pushed forward (the paper's)", class_average),
        Init("lognormal", "iid log-normal, fitted to pushed-forward data", lognormal),
        Init("lognormal-class", "iid log-normal, fitted to class averages", lognormal_class),
        Init(
            "lognormal-paper",
            "iid log-normal with the figures that the paper prints",
            lognormal_paper,
            needs_paper_fit=True,
        ),
        Init("gaussian", "Gaussian in log x with the data's covariance", gaussian),
        Init("class-gaussian", "one such Gaussian for each class", class_gaussian),
        Init(
            "forward-data",
            "training images pushed forward: an oracle",
            forward_data,
            leaks_data=True,
        ),
    ],
)
