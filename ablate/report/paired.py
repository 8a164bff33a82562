"""Differences of trials with paired intervals: noise that trials share cancels in them.

Where the record has the covariance of the trials' values, by the influence of every image, a
difference gets its interval from that. Older records have the trials' own errors alone: their sum,
as if nothing were shared, is never too small. Records without errors have the seeds' differences.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import NormalDist, fmean, stdev
from typing import Any, NamedTuple

from ablate.core.nested import error_over_trainings, half_width
from ablate.results import ERROR, StudyResults

ALPHA = 0.05
UNPAIRED = "as if no noise were shared"


class Difference(NamedTuple):
    """A weighted sum of trials' values, mostly one less another."""

    value: float
    half: float | None  # half-width of the 95 % interval; None if nothing shows the spread
    p: float | None  # two-sided
    how: str = "paired"  # how the interval was made

    @property
    def clear(self) -> bool:
        """Whether its interval excludes zero."""
        return self.half is not None and abs(self.value) > self.half


class Covariance(NamedTuple):
    """The covariance of the trials' means over images and sampling."""

    place: Mapping[int, int]  # trial -> its row
    rows: Sequence[Sequence[float]]  # each up to the diagonal
    paired: bool = True  # else the last of a row is all it has, and others count as nothing

    def of(self, one: int, other: int) -> float:
        low, high = sorted((self.place[one], self.place[other]))
        if self.paired or low == high:
            return self.rows[high][low if self.paired else 0]
        return 0.0


class Group(NamedTuple):
    """Trials that share their seeds and random numbers."""

    values: Mapping[int, Sequence[float]]  # trial -> its cells' values, by seed
    training_seeds: Sequence[Hashable]  # of each seed
    covariance: Covariance
    confirmed: bool = False  # on seeds that had no part in the search

    def __contains__(self, trial: object) -> bool:
        return trial in self.values

    def difference(self, one: int, other: int) -> Difference:
        """The first trial's value less the second's."""
        return self.contrast({one: 1.0, other: -1.0} if one != other else {})

    def contrast(self, weights: Mapping[int, float]) -> Difference:
        """The sum of weight times value over trials."""
        used = {trial: weight for trial, weight in weights.items() if weight}
        if not used:
            return Difference(0.0, 0.0, 1.0)
        by_seed = [
            sum(weight * self.values[trial][k] for trial, weight in used.items())
            for k in range(len(self.training_seeds))
        ]
        error = self._error(used)
        half = half_width(by_seed, self.training_seeds, error)
        how = "paired" if self.covariance.paired or error is None else UNPAIRED
        return Difference(fmean(by_seed), half, _p(by_seed, self.training_seeds, error), how)

    def _error(self, weights: Mapping[int, float]) -> float | None:
        """The standard error over images and sampling; None if the record has none."""
        if any(trial not in self.covariance.place for trial in weights):
            return None
        total = sum(
            a * b * self.covariance.of(one, other)
            for one, a in weights.items()
            for other, b in weights.items()
        )
        return math.sqrt(max(total, 0.0))


def _p(values: Sequence[float], seeds: Sequence[Hashable], error: float | None) -> float | None:
    """Two-sided, by the law that the interval is made with; the larger one of two."""
    found: list[float] = []
    mean, trained = fmean(values), error_over_trainings(values, seeds)
    if error is not None:
        found.append(2 * NormalDist().cdf(-abs(mean) / error) if error else float(mean == 0))
    if trained is not None:
        found.append(_student(mean, trained, len(set(seeds)) - 1))
    elif error is None and len(values) > 1:
        found.append(_student(mean, stdev(values) / math.sqrt(len(values)), len(values) - 1))
    return max(found, default=None)


def _student(mean: float, error: float, freedom: int) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)


def searched_group(results: StudyResults, metric: str | None = None) -> Group:
    """The complete trials, as the search measured them."""
    metric = metric or results.objectives[0].metric
    found = _recorded(results, "complete", metric)
    return found or _from_cells(results, metric)


def confirmed_group(results: StudyResults, metric: str | None = None) -> Group | None:
    """What was measured again, by the numbers of the search; None if nothing was recorded so."""
    found = _recorded(results, "confirmed", metric or results.objectives[0].metric)
    return found and found._replace(confirmed=True)


def common_group(results: StudyResults) -> Group | None:
    """Complete and pruned trials at the same number of samples; None if the record has none."""
    return _recorded(results, "common", results.objectives[0].metric)


def fitting_group(results: StudyResults, trials: Sequence[int], metric: str | None = None) -> Group:
    """The confirmed values if they have all of these trials, else the search's."""
    again = confirmed_group(results, metric)
    if again is not None and all(trial in again for trial in trials):
        return again
    return searched_group(results, metric)


def _recorded(results: StudyResults, which: str, metric: str) -> Group | None:
    document: dict[str, Any] = results.comparisons.get(which) or {}
    found = document.get("metrics", {}).get(metric)
    if not found:
        return None
    numbers = document["trials"]
    place = {number: row for row, number in enumerate(numbers)}
    covariance = Covariance(place, found["covariance"])
    values = dict(zip(numbers, found["values"], strict=True))
    return Group(values, document["training_seeds"], covariance)


def _from_cells(results: StudyResults, metric: str) -> Group:
    """By the cells of complete trials that have the seeds of most of them."""
    having = [
        trial
        for trial in results.trials
        if trial.state == "complete" and all(metric in cell.metrics for cell in trial.cells)
    ]
    seeds = [tuple((cell.seed, cell.training_seed) for cell in trial.cells) for trial in having]
    usual = max(dict.fromkeys(seeds), key=seeds.count, default=())
    alike = [trial for trial, own in zip(having, seeds, strict=True) if own == usual and own]
    known = {
        trial.number: sum(c.metrics[metric + ERROR] ** 2 for c in trial.cells)
        / len(trial.cells) ** 2
        for trial in alike
        if all(metric + ERROR in cell.metrics for cell in trial.cells)
    }
    place = {number: row for row, number in enumerate(known)}
    covariance = Covariance(place, [[variance] for variance in known.values()], paired=False)
    values = {trial.number: [c.metrics[metric] for c in trial.cells] for trial in alike}
    return Group(values, [trained for _, trained in usual], covariance)
