"""Contrasts of trials over their seeds, with intervals that hold training where it was repeated."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from scipy.special import stdtr

from ablate.core.nested import error_over_trainings, half_width
from ablate.metrics.estimate import Measured, contrast, pooled


class Contrast(NamedTuple):
    """A sum of weight times metric over trials that share seeds, training seeds and noise."""

    value: float
    error: float  # standard error over images and sampling
    half: float  # half-width of the 95 % interval, which holds training, too
    below: float  # probability that the true value is below 0: one-sided p-value of the other side


def contrast_over_seeds(
    terms: Sequence[tuple[float, Sequence[Measured]]], training_seeds: Sequence[int | None]
) -> Contrast:
    """The contrast of trials, each measured by seed; `training_seeds` has that of each seed.

    Trials of one training seed have the same batches, noise and first weights, as far as their
    networks are alike, so the contrast is taken within training seeds and varies less than its
    terms do. `below` is by whichever of Student's law over training seeds and the normal law over
    images is nearer to one half, as the interval is the wider of the two.
    """
    if not terms:
        return Contrast(0.0, 0.0, 0.0, 0.5)
    found = contrast([(weight, pooled(cells)) for weight, cells in terms])
    seeds = range(len(terms[0][1]))
    values = [sum(weight * cells[k].value for weight, cells in terms) for k in seeds]
    half = half_width(values, training_seeds, found.error) or 0.0
    chances = [NormalDist().cdf(-_ratio(found.value, found.error))]
    if (spread := error_over_trainings(values, training_seeds)) is not None:
        freedom = len(set(training_seeds)) - 1
        chances.append(float(stdtr(freedom, -_ratio(found.value, spread))))
    return Contrast(found.value, found.error, half, min(chances, key=lambda p: abs(p - 0.5)))


def _ratio(value: float, error: float) -> float:
    return value / error if error else 0.0
