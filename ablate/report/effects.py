"""StudyResults -> what each knob does to the first objective."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ablate.report.names import Estimate, Item, estimate, knob_name, metric_name, shown, text
from ablate.report.tables import Row, Table, is_scale, knob_values, numbers, ranking, varied, words
from ablate.results import StudyResults, Trial, Value

FEW = 6
"""A numeric knob with at most so many values is compared value by value."""


class Group(NamedTuple):
    """The trials that share one value of a knob."""

    value: Value
    mean: float | None  # of the first objective, None without a complete trial
    ranked: list[Trial]
    diverged: int


def by_value(record: StudyResults, knob: str) -> list[Group]:
    """A knob's values, best mean first; none for a knob that took many numbers."""
    values = knob_values(record.trials, knob)
    if is_scale(values) and len(values) > FEW:
        return []
    sign = -1 if record.objectives[0].direction == "maximize" else 1
    groups = [_group(record, knob, value) for value in values]
    return sorted(groups, key=lambda g: math.inf if g.mean is None else sign * g.mean)


def _group(record: StudyResults, knob: str, value: Value) -> Group:
    metric = record.objectives[0].metric
    ranked = [t for t in ranking(record) if t.params.get(knob) == value]
    lost = [t for t in record.trials if t.params.get(knob) == value and t.state == "diverged"]
    mean = fmean(t.metrics[metric] for t in ranked) if ranked else None
    return Group(value, mean, ranked, len(lost))


def effects(record: StudyResults) -> Table:
    """One row per varied knob: the best and worst of few values, rank correlation of numbers."""
    name = metric_name(record.objectives[0].metric)
    header = [words("knob"), numbers("trials"), words("values"), words("best", "best value")]
    header += [numbers("best_trials", "trials"), numbers("best_mean", f"mean {name}")]
    header += [words("worst", "worst value"), numbers("worst_trials", "trials")]
    header += [numbers("worst_mean", f"mean {name}"), numbers("spearman", "Spearman ρ")]
    caption = (
        f"Effect of each knob on {name}, over the complete trials, the other knobs as they came. "
        f"ρ > 0: {name} grows with the knob. A search does not vary its knobs independently: "
        f"read this with the figures."
    )
    return Table("effects", caption, header, [_effect(record, knob) for knob in varied(record)])


def _effect(record: StudyResults, knob: str) -> Row:
    metric = record.objectives[0].metric
    having = [t for t in ranking(record) if knob in t.params]
    groups = [group for group in by_value(record, knob) if group.ranked]
    ends: Row = (None,) * 6
    if len(groups) > 1:
        first, last = groups[0], groups[-1]
        ends = (shown(first.value), len(first.ranked), _mean(first))
        ends += (shown(last.value), len(last.ranked), _mean(last))
    rho = None
    if is_scale(knob_values(record.trials, knob)):
        rho = spearman([(float(t.params[knob]), t.metrics[metric]) for t in having])
    return (knob_name(knob), len(having), _span(record, knob), *ends, rho and round(rho, 2))


def _mean(group: Group) -> Estimate | None:
    return None if group.mean is None else Estimate(group.mean)


def _best(group: Group, metric: str) -> Estimate | None:
    return estimate(group.ranked[0], metric) if group.ranked else None


def _span(record: StudyResults, knob: str) -> Item:
    values = knob_values(record.trials, knob)
    if is_scale(values):
        return f"{text(values[0])} to {text(values[-1])}"
    return f"{len(values)} kinds"


def value_means(record: StudyResults) -> Table:
    """The first objective at each value of the knobs that took few, best value first."""
    metric = record.objectives[0].metric
    name = metric_name(metric)
    header = [words("knob"), words("value"), numbers("trials"), numbers("diverged")]
    header += [numbers("mean", f"mean {name}"), numbers("best", f"best {name}")]
    rows: list[Row] = [
        (knob_name(knob), shown(g.value), len(g.ranked), g.diverged, _mean(g), _best(g, metric))
        for knob in varied(record)
        for g in by_value(record, knob)
    ]
    caption = (
        f"{name} at each value, the best of a knob first. Trials that diverged are in no mean: "
        f"a value that loses many looks better than it is."
    )
    return Table("values", caption, header, rows)


def spearman(pairs: list[tuple[float, float]]) -> float | None:
    """Rank correlation, ties at their mean rank; None below three pairs or without variation."""
    if len(pairs) < 3:
        return None
    x, y = (_ranks(np.array(side, dtype=np.float64)) for side in zip(*pairs, strict=True))
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / scale if scale else None


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: np.ndarray = np.cumsum(counts) - (counts - 1) / 2
    return means[place]
