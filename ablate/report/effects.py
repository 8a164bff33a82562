"""StudyResults -> what each knob does to the first objective."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

from ablate.report.blocks import Row, Table, numbers, words
from ablate.report.knobs import is_scale, knob_values, varied
from ablate.report.names import (
    LEGEND,
    Estimate,
    Item,
    estimate,
    in_order,
    knob_name,
    metric_name,
    shown,
    text,
)
from ablate.report.paired import common_group
from ablate.report.ranking import pruned_trials, ranking
from ablate.results import StudyResults, Trial, Value

FEW = 6
"""A numeric knob with at most so many values is compared value by value."""


STEADY = ("kid", "precision", "density")
"""Metrics whose mean is the same for any number of samples."""


class Group(NamedTuple):
    """The trials that share one value of a knob."""

    value: Value
    mean: float | None  # of the first objective, None without a trial that measured it
    ranked: list[Trial]  # complete
    diverged: int
    size: int  # trials that the mean is over


def measured(results: StudyResults) -> dict[int, float]:
    """Trial -> the first objective, of complete and pruned trials alike: at a common number of
    samples if the record has that, else pruned ones count with what they have if the metric allows.

    Over complete trials alone effects would be confounded: pruning ends poor values.
    """
    if (group := common_group(results)) is not None:
        return {number: fmean(values) for number, values in group.values.items()}
    metric = results.objectives[0].metric
    found = {trial.number: trial.metrics[metric] for trial in ranking(results)}
    pruned = pruned_trials(results) if metric in STEADY else []
    return found | {trial.number: value.value for trial, value in pruned}


def over(results: StudyResults) -> str:
    """Which trials effects are over, in words."""
    pruned, found = pruned_trials(results), measured(results)
    if not any(trial.number in found for trial, _ in pruned):
        return "the complete trials"
    if common_group(results) is None:
        return f"all {len(found)} trials, pruned ones with the samples that they had"
    samples = results.comparisons["common"]["samples"]
    return f"all {len(found)} trials, complete and pruned, on the same {samples:,} samples"


def by_value(results: StudyResults, knob: str) -> list[Group]:
    """A knob's values, best mean first; none for a knob that took many numbers."""
    values = knob_values(results.trials, knob)
    if is_scale(values) and len(values) > FEW:
        return []
    sign = results.objectives[0].sign
    found = measured(results)
    groups = [_group(results, knob, value, found) for value in values]
    return sorted(groups, key=lambda g: math.inf if g.mean is None else sign * g.mean)


def _group(results: StudyResults, knob: str, value: Value, found: dict[int, float]) -> Group:
    having = [t for t in results.trials if t.params.get(knob) == value]
    ranked = [t for t in ranking(results) if t.params.get(knob) == value]
    known = [found[t.number] for t in having if t.number in found]
    lost = sum(trial.state == "diverged" for trial in having)
    return Group(value, fmean(known) if known else None, ranked, lost, len(known))


def effects(results: StudyResults) -> Table:
    """One row per varied knob: the best and worst of few values, rank correlation of numbers."""
    name = metric_name(results, results.objectives[0].metric)
    header = [words("knob"), numbers("trials"), words("values"), words("best", "best value")]
    header += [numbers("best_trials", "trials"), numbers("best_mean", f"mean {name}")]
    header += [words("worst", "worst value"), numbers("worst_trials", "trials")]
    header += [numbers("worst_mean", f"mean {name}"), numbers("spearman", "rank correlation")]
    caption = (
        f"Effect of each knob on {name}, over {over(results)}, the other knobs as they came. "
        f"Rank correlation (Spearman's): above 0 {name} grows with the knob. A search does not "
        f"vary its knobs independently: read this with the figures."
    )
    return Table("effects", caption, header, [_effect(results, knob) for knob in varied(results)])


def _effect(results: StudyResults, knob: str) -> Row:
    found = measured(results)
    having = [t for t in results.trials if knob in t.params and t.number in found]
    groups = [group for group in by_value(results, knob) if group.size]
    ends: Row = (None,) * 6
    if len(groups) > 1:
        first, last = groups[0], groups[-1]
        ends = (shown(results, first.value), first.size, _mean(first))
        ends += (shown(results, last.value), last.size, _mean(last))
    rho = None
    if is_scale(knob_values(results.trials, knob)):
        rho = spearman([(float(t.params[knob]), found[t.number]) for t in having])
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
            head = (knob_name(knob), shown(results, g.value), g.size, g.diverged)
            rows.append((*head, _mean(g), _best(g, metric)))
    caption = (
        f"{name} at each value, the best of a knob first, over {over(results)}. Trials that"
        " diverged are in no mean: a value that loses many looks better than it is."
    )
    return Table("values", caption, header, rows, grouped=True)


def importance(results: StudyResults) -> Table:
    """Each knob's share of what moves each objective, by Optuna's evaluators."""
    header, columns = [words("knob")], list[dict[str, Item]]()
    for metric, methods in results.importance.items():
        for method, shares in methods.items():
            if method in BESIDE_FANOVA:
                continue
            label = f"{metric_name(results, metric)}, {method}"
            header.append(numbers(f"{metric}_{method}", label))
            columns.append(_with_errors(methods, method, shares))
    knobs = in_order({knob for shares in columns for knob in shares})
    rows: list[Row] = [(knob_name(knob), *(s.get(knob) for s in columns)) for knob in knobs]
    caption = (
        "Importance of the knobs that can be separated: the share of an objective's variation "
        "that each explains (fANOVA, where all trials have the same knobs), or of what separates "
        "the best tenth, or the best five, from the rest (PED-ANOVA). Errors are the spread over "
        "the trees of fANOVA's forest. Pruned trials count with their last value."
    )
    taken = {knob for trial in results.trials for knob in trial.params}
    meant = [f"{knob_name(k)} is {LEGEND[k]}" for k in knobs if k not in taken and k in LEGEND]
    if meant:
        caption += f" The search's own coordinates: {'; '.join(meant)}."
    return Table("importance", caption, header, rows)


MAIN, PAIRS, OF_TREES = "fANOVA variance", "fANOVA pairs", " error"
BESIDE_FANOVA = (MAIN, MAIN + OF_TREES, PAIRS, PAIRS + OF_TREES)
"""What the record has of fANOVA beside shares of single knobs that add up to 1."""


def _with_errors(
    methods: dict[str, dict[str, float]], method: str, shares: dict[str, float]
) -> dict[str, Item]:
    """fANOVA's shares of the whole variance with their spread over the trees, where known."""
    if method == "fANOVA" and MAIN in methods:
        errors = methods[MAIN + OF_TREES]
        return {knob: Estimate(share, errors[knob]) for knob, share in methods[MAIN].items()}
    return {knob: round(share, 3) for knob, share in shares.items()}


def spearman(pairs: list[tuple[float, float]]) -> float | None:
    """Rank correlation, ties at their mean rank; None below three pairs or without variation."""
    if len(pairs) < 3:
        return None
    x, y = zip(*pairs, strict=True)
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    from scipy.stats import spearmanr  # a second to import, and answers need it rarely

    return float(spearmanr(x, y).statistic)
