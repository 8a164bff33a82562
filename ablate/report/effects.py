"""StudyResults -> what each knob does to the first objective."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

from scipy.stats import spearmanr

from ablate.report.blocks import Row, Table, numbers, words
from ablate.report.knobs import is_scale, knob_values, varied
from ablate.report.names import (
    Estimate,
    Item,
    estimate,
    in_order,
    knob_name,
    metric_name,
    shown,
    text,
)
from ablate.report.ranking import ranking
from ablate.results import StudyResults, Trial, Value

FEW = 6
"""A numeric knob with at most so many values is compared value by value."""


class Group(NamedTuple):
    """The trials that share one value of a knob."""

    value: Value
    mean: float | None  # of the first objective, None without a complete trial
    ranked: list[Trial]
    diverged: int


def by_value(results: StudyResults, knob: str) -> list[Group]:
    """A knob's values, best mean first; none for a knob that took many numbers."""
    values = knob_values(results.trials, knob)
    if is_scale(values) and len(values) > FEW:
        return []
    sign = results.objectives[0].sign
    groups = [_group(results, knob, value) for value in values]
    return sorted(groups, key=lambda g: math.inf if g.mean is None else sign * g.mean)


def _group(results: StudyResults, knob: str, value: Value) -> Group:
    metric = results.objectives[0].metric
    ranked = [t for t in ranking(results) if t.params.get(knob) == value]
    lost = [t for t in results.trials if t.params.get(knob) == value and t.state == "diverged"]
    mean = fmean(t.metrics[metric] for t in ranked) if ranked else None
    return Group(value, mean, ranked, len(lost))


def effects(results: StudyResults) -> Table:
    """One row per varied knob: the best and worst of few values, rank correlation of numbers."""
    name = metric_name(results, results.objectives[0].metric)
    header = [words("knob"), numbers("trials"), words("values"), words("best", "best value")]
    header += [numbers("best_trials", "trials"), numbers("best_mean", f"mean {name}")]
    header += [words("worst", "worst value"), numbers("worst_trials", "trials")]
    header += [numbers("worst_mean", f"mean {name}"), numbers("spearman", "Spearman ρ")]
    caption = (
        f"Effect of each knob on {name}, over the complete trials, the other knobs as they came. "
        f"ρ > 0: {name} grows with the knob. A search does not vary its knobs independently: "
        f"read this with the figures."
    )
    return Table("effects", caption, header, [_effect(results, knob) for knob in varied(results)])


def _effect(results: StudyResults, knob: str) -> Row:
    metric = results.objectives[0].metric
    having = [t for t in ranking(results) if knob in t.params]
    groups = [group for group in by_value(results, knob) if group.ranked]
    ends: Row = (None,) * 6
    if len(groups) > 1:
        first, last = groups[0], groups[-1]
        ends = (shown(results, first.value), len(first.ranked), _mean(first))
        ends += (shown(results, last.value), len(last.ranked), _mean(last))
    rho = None
    if is_scale(knob_values(results.trials, knob)):
        rho = spearman([(float(t.params[knob]), t.metrics[metric]) for t in having])
    return (knob_name(knob), len(having), _span(results, knob), *ends, rho and round(rho, 2))


def _mean(group: Group) -> Estimate | None:
    return None if group.mean is None else Estimate(group.mean)


def _best(group: Group, metric: str) -> Estimate | None:
    return estimate(group.ranked[0], metric) if group.ranked else None


def _span(results: StudyResults, knob: str) -> Item:
    values = knob_values(results.trials, knob)
    if is_scale(values):
        return f"{text(values[0])} to {text(values[-1])}"
    return f"{len(values)} kinds"


def value_means(results: StudyResults) -> Table:
    """The first objective at each value of the knobs that took few, best value first."""
    metric = results.objectives[0].metric
    name = metric_name(results, metric)
    header = [words("knob"), words("value"), numbers("trials"), numbers("diverged")]
    header += [numbers("mean", f"mean {name}"), numbers("best", f"best {name}")]
    rows: list[Row] = []
    for knob in varied(results):
        for g in by_value(results, knob):
            head = (knob_name(knob), shown(results, g.value), len(g.ranked), g.diverged)
            rows.append((*head, _mean(g), _best(g, metric)))
    caption = (
        f"{name} at each value, the best of a knob first. Trials that diverged are in no mean: "
        f"a value that loses many looks better than it is."
    )
    return Table("values", caption, header, rows, grouped=True)


def importance(results: StudyResults) -> Table:
    """Each knob's share of what moves each objective, by Optuna's evaluators."""
    header, columns = [words("knob")], []
    for metric, methods in results.importance.items():
        for method, shares in methods.items():
            label = f"{metric_name(results, metric)}, {method}"
            header.append(numbers(f"{metric}_{method}", label))
            columns.append(shares)
    knobs = in_order({knob for shares in columns for knob in shares})
    rows: list[Row] = [
        (knob_name(knob), *(round(s[knob], 3) if knob in s else None for s in columns))
        for knob in knobs
    ]
    caption = (
        "Importance of the knobs that can be separated: the share of an objective's variation "
        "that each explains (fANOVA, where all trials have the same knobs), or of what separates "
        "the best tenth, or the best five, from the rest (PED-ANOVA). Pruned trials count with "
        "their last value."
    )
    return Table("importance", caption, header, rows)


def spearman(pairs: list[tuple[float, float]]) -> float | None:
    """Rank correlation, ties at their mean rank; None below three pairs or without variation."""
    if len(pairs) < 3:
        return None
    x, y = zip(*pairs, strict=True)
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(spearmanr(x, y).statistic)
