"""Initialisations: where a sampler starts. To add one, write a function and add a record here.

A start is y at noise level s, drawn from u, uniform on [0, 1), [B], and z, standard normal, [B, d].
The class (or image, or component) of a sample comes from u and everything else from z, so a start
depends on (seed, i) alone. The caller adds the shift m(t) of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ablate.core.knobs import Knob
from ablate.core.registry import Registry

if TYPE_CHECKING:  # torch is imported inside functions: settings are read without it
    from torch import Tensor

    from ablate.diffusion.mixture import Mixture
    from ablate.diffusion.moments import Gaussian, Moments

PAPER_SIGMA = 0.8


class Source(NamedTuple):
    """What an initialisation may use; all but the moments are None if not available."""

    moments: Moments
    paper_fit: tuple[Sequence[float], Sequence[float]] | None = None  # mu and sigma by channel
    images: Tensor | None = None  # y_0 of the training images, [N, d]
    labels: Tensor | None = None  # of these images, [N]
    mixture: Callable[[int], Mixture] | None = None  # number of components -> the fit


Draw = Callable[..., "Tensor"]


def any_class(source: Source, classes: int, u: Tensor) -> Tensor:
    """A class that the start does not depend on."""
    return pick(u, classes)


@dataclass(frozen=True)
class Init:
    """An initialisation.

    draw: `(source, s, u, z, **own) -> y`, [B, d].
    leaks_data: whether it starts from training images; reports list such trials separately.
    needs_paper_fit: whether it needs the dataset's log-normal fit from the paper.
    needs_mixture: whether it needs a mixture fitted to the dataset.
    labels: `(source, classes, u, **own) -> class of each start`, [B], for networks with classes.
    own: its own knobs; settings of other initialisations do not have them.
    """

    name: str
    about: str
    draw: Draw
    leaks_data: bool = False
    needs_paper_fit: bool = False
    needs_mixture: bool = False
    labels: Draw = any_class
    own: tuple[Knob, ...] = ()


def pick(u: Tensor, count: int) -> Tensor:
    """An index below `count` from u on [0, 1)."""
    return (u.double() * count).long().clamp_max(count - 1)


def chosen_class(source: Source, classes: int, u: Tensor, label: int | None = None) -> Tensor:
    """The class that u picks, or `label` for every sample."""
    if label is not None and not 0 <= label < classes:
        raise ValueError(f"label = {label}: the classes are 0 to {classes - 1}")
    picked = pick(u, classes)
    return picked if label is None else picked.fill_(label)


def class_average(
    source: Source, s: float, u: Tensor, z: Tensor, label: int | None = None
) -> Tensor:
    """The mean image of a class, taken in pixel space, pushed forward to level s."""
    averages = source.moments.class_averages
    return averages[chosen_class(source, len(averages), u, label)].log() + s * z


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


def class_gaussian(
    source: Source, s: float, u: Tensor, z: Tensor, label: int | None = None
) -> Tensor:
    """One such Gaussian for each class."""
    classes = source.moments.classes
    return _of_parts(chosen_class(source, len(classes), u, label), classes.__getitem__, s, z)


def _of_parts(chosen: Tensor, part: Callable[[int], Gaussian], s: float, z: Tensor) -> Tensor:
    """Row i drawn from the Gaussian part(chosen[i])."""
    drawn = z.new_empty(z.shape)
    for k in chosen.unique().tolist():
        rows = chosen == k
        drawn[rows] = part(k).at(s, z[rows])
    return drawn


def mixture(source: Source, s: float, u: Tensor, z: Tensor, components: int = 10) -> Tensor:
    """A mixture of Gaussians fitted without labels, each pushed forward."""
    fit, everything = _mixture(source, components), source.moments.everything
    return _of_parts(fit.pick(u), lambda j: fit.component(j, everything), s, z)


def mixture_class(source: Source, classes: int, u: Tensor, components: int = 10) -> Tensor:
    """A class by its share of the images that the sample's component stands for."""
    return _mixture(source, components).pick_class(u)


def _mixture(source: Source, components: int) -> Mixture:
    if source.mixture is None:
        raise ValueError("no mixture was fitted to this dataset")
    return source.mixture(components)


def forward_data(
    source: Source, s: float, u: Tensor, z: Tensor, label: int | None = None
) -> Tensor:
    """Training images pushed forward: leaks data, and shows what the other starts cost."""
    if source.images is None:
        raise ValueError("the training images are not on this machine")
    return source.images[_image(source, len(source.images), u, label)] + s * z


def image_class(source: Source, classes: int, u: Tensor, label: int | None = None) -> Tensor:
    """The class of the image that the sample starts from."""
    labels = _labels(source)
    return labels[_image(source, len(labels), u, label)]


def _image(source: Source, count: int, u: Tensor, label: int | None) -> Tensor:
    """The index of an image, among `count` or among those of a class."""
    if label is None:
        return pick(u, count)
    members = (_labels(source) == label).nonzero()[:, 0]
    if not len(members):
        raise ValueError(f"label = {label}: no training image has it")
    return members[pick(u, len(members))]


def _labels(source: Source) -> Tensor:
    if source.labels is None:
        raise ValueError("the labels of the training images are not known")
    return source.labels


LABEL = Knob("label", "the only class to start from", 0, 9_999, default=None, whole=True)
COMPONENTS = Knob("components", "Gaussians in the mixture", 1, 1_000, default=10, whole=True)

INITS: Registry[Init] = Registry(
    "init",
    "ablate.inits",
    Init,
    [
        Init(
            "class-average",
            "mean image of a class, pushed forward (the paper's)",
            class_average,
            labels=chosen_class,
            own=(LABEL,),
        ),
        Init("lognormal", "iid log-normal, fitted to pushed-forward data", lognormal),
        Init("lognormal-class", "iid log-normal, fitted to class averages", lognormal_class),
        Init(
            "lognormal-paper",
            "iid log-normal with the figures that the paper prints",
            lognormal_paper,
            needs_paper_fit=True,
        ),
        Init("gaussian", "Gaussian in log x with the data's covariance", gaussian),
        Init(
            "class-gaussian",
            "one such Gaussian for each class",
            class_gaussian,
            labels=chosen_class,
            own=(LABEL,),
        ),
        Init(
            "mixture",
            "mixture of Gaussians in log x, fitted without labels",
            mixture,
            needs_mixture=True,
            labels=mixture_class,
            own=(COMPONENTS,),
        ),
        Init(
            "forward-data",
            "training images pushed forward: an oracle",
            forward_data,
            leaks_data=True,
            labels=image_class,
            own=(LABEL,),
        ),
    ],
)
