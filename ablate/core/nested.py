"""Cells nested in training seeds: intervals that hold all variation, and where it comes from.

A cell's value is x_gk = m + a_g + b_gk + e_gk for training seed g of T and sampling seed k of K:
training, sampling and the images of the cell each add a deviation, with variances σ_T², σ_S², σ_I².
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from ablate.core.quantiles import Z95, student_975


def half_width(
    values: Sequence[float], seeds: Sequence[Hashable], error: float | None
) -> float | None:
    """Half-width of the 95 % interval of the mean of cells; None if nothing shows their spread.

    seeds: the training seed of each cell. error: the standard error of the mean over images and
    sampling, which the influence of every image gives; None if it is not known.

    With one training seed the error alone decides; without it, Student's interval over the cells.
    With T of them the interval holds training, too. Their means m_g are independent, and the spread
    of these is that of all three variations together: var(m_g) = σ_T² + (σ_S² + σ_I²)/K. So
    Student's interval over the T means, with T - 1 degrees of freedom, has 95 % coverage whatever
    the shares are. With few seeds the means may be close together by chance; the interval is never
    narrower than the one over images and sampling, which only adds to its coverage.

    Where training seeds have different numbers of cells (a trial that ended early), m_g has the
    weight n_g/n in the mean, and the variance is T/(T - 1) Σ (n_g/n)² (m_g - m)².
    """
    within = None if error is None else Z95 * error
    if (spread := error_over_trainings(values, seeds)) is not None:
        between = student_975(len(set(seeds)) - 1) * spread
        return between if within is None else max(between, within)
    if within is None and len(values) > 1:
        return student_975(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return within


def error_over_trainings(values: Sequence[float], seeds: Sequence[Hashable]) -> float | None:
    """The standard error of the mean of cells by the spread of the means of training seeds; None
    for fewer than two of these."""
    cells = _by_training(values, seeds)
    if len(cells) < 2:
        return None
    mean, total = fmean(values), 0.0
    for group in cells:
        total += (len(group) / len(values) * (fmean(group) - mean)) ** 2
    return math.sqrt(len(cells) / (len(cells) - 1) * total)


def _by_training(values: Sequence[float], seeds: Sequence[Hashable]) -> list[list[float]]:
    """The values of each training seed."""
    groups: dict[Hashable, list[float]] = {}
    for value, seed in zip(values, seeds, strict=False):
        groups.setdefault(seed, []).append(value)
    return list(groups.values())


class Components(NamedTuple):
    """Variances of the value of one cell."""

    training: float
    sampling: float | None  # None if every training seed has one cell
    images: float

    @property
    def shares(self) -> tuple[float, float | None, float]:
        """Each as a share of their sum."""
        total = self.training + (self.sampling or 0.0) + self.images
        if not total:
            return (0.0, None if self.sampling is None else 0.0, 0.0)
        of_sampling = None if self.sampling is None else self.sampling / total
        return (self.training / total, of_sampling, self.images / total)


class Cells(NamedTuple):
    """The cells of one configuration."""

    values: Sequence[float]
    seeds: Sequence[Hashable]  # the training seed of each
    errors: Sequence[float]  # the standard error of each over its images


def components(trials: Sequence[Cells]) -> Components | None:
    """The components of variance, by the analysis of variance of a nested design with random
    effects; None unless all have T >= 2 training seeds with the same number K of cells.

    Mean squares, with m_g the mean of a training seed and m the mean of all:

        MS_T = K Σ_g (m_g - m)² / (T - 1)          E MS_T = σ_I² + σ_S² + K σ_T²
        MS_S = Σ_gk (x_gk - m_g)² / (T (K - 1))    E MS_S = σ_I² + σ_S²
        MS_I = mean of the squared errors          E MS_I = σ_I²

    Of several configurations they are averaged. The estimates are σ_T² = (MS_T - MS_S)/K,
    σ_S² = MS_S - MS_I and σ_I² = MS_I; a negative one counts as 0. With K = 1 there is no MS_S:
    MS_I stands in its place, which assumes that the errors hold the sampling, as they should.
    """
    squares = [_mean_squares(each) for each in trials]
    if not squares or None in squares:
        return None
    known = [each for each in squares if each is not None]
    if len({each.cells for each in known}) > 1:
        return None
    K, of_training = known[0].cells, fmean(each.training for each in known)
    images = fmean(each.images for each in known)
    if K == 1:
        return Components(max(0.0, of_training - images), None, images)
    of_sampling = fmean(each.sampling for each in known)
    training, sampling = (of_training - of_sampling) / K, of_sampling - images
    return Components(max(0.0, training), max(0.0, sampling), images)


class _MeanSquares(NamedTuple):
    training: float
    sampling: float
    images: float
    cells: int  # of each training seed


def _mean_squares(trial: Cells) -> _MeanSquares | None:
    """The mean squares of one configuration; None if its design is not nested and balanced."""
    groups = _by_training(trial.values, trial.seeds)
    T, K = len(groups), len(groups[0]) if groups else 0
    if T < 2 or any(len(group) != K for group in groups):
        return None
    mean, means = fmean(trial.values), [fmean(group) for group in groups]
    between = K * sum((each - mean) ** 2 for each in means) / (T - 1)
    deviations = (x - m for group, m in zip(groups, means, strict=True) for x in group)
    within = sum(each**2 for each in deviations) / (T * (K - 1)) if K > 1 else 0.0
    return _MeanSquares(between, within, fmean(each**2 for each in trial.errors), K)
