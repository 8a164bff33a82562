"""StudyResults -> the columns and cells that tables share: knobs, metrics, baselines."""

from __future__ import annotations

from ablate.report.blocks import Column, Row
from ablate.report.knobs import is_scale, knob_values
from ablate.report.names import (
    Estimate,
    arrow,
    baseline_name,
    estimate,
    knob_name,
    metric_label,
    shown,
)
from ablate.report.ranking import OF_A_RUNG
from ablate.results import INTERVAL, StudyResults, Trial

COSTS = ("nfe", "seconds")
"""Metrics of what a sample costs: in the last columns."""

DIVERSITY = ("recall", "coverage")
"""Metrics of how much of the real images' variety samples have: beside KID wherever it is."""

COPIES = "nn_"
"""Prefix of the metrics of a search for copies of training images."""


def metrics(results: StudyResults) -> list[str]:
    """Objectives, metrics with a protocol, then all others that were logged; costs last."""
    first = [o.metric for o in results.objectives]
    logged = [name for t in results.trials for name in t.metrics]
    names = dict.fromkeys([*first, *results.protocols, *sorted(logged)])
    seen = [name for name in names if name in logged or name in first]
    seen = [name for name in seen if name != "samples" and not OF_A_RUNG.search(name)]
    return [m for m in seen if m not in COSTS] + [m for m in COSTS if m in seen]


def with_diversity(results: StudyResults, names: list[str]) -> list[str]:
    """These metrics, and behind KID those of diversity, as far as they were measured."""
    if "kid" not in names:
        return names
    others = [m for m in DIVERSITY if m in metrics(results) and m not in names]
    place = names.index("kid") + 1
    return [*names[:place], *others, *names[place:]]


def searched_for_copies(results: StudyResults) -> bool:
    """Whether trials have metrics of a search for copies of training images."""
    return any(metric.startswith(COPIES) for metric in metrics(results))


def knob_columns(results: StudyResults, knobs: list[str]) -> list[Column]:
    """A column for each knob: of numbers, unless a value is a word."""
    return [Column(k, knob_name(k), not is_scale(knob_values(results.trials, k))) for k in knobs]


def metric_columns(results: StudyResults, names: list[str]) -> list[Column]:
    """A column for each metric; an arrow shows which way an objective is better."""
    arrows = {o.metric: f" {arrow(o)}" for o in results.objectives}
    return [Column(m, f"{metric_label(results, m)}{arrows.get(m, '')}") for m in names]


def trial_cells(results: StudyResults, trial: Trial, knobs: list[str], names: list[str]) -> Row:
    """A trial's values of these knobs, then of these metrics."""
    settings = (shown(results, trial.params[k]) if k in trial.params else None for k in knobs)
    return (*settings, *(estimate(trial, name) for name in names))


def baseline_rows(results: StudyResults, names: list[str]) -> list[Row]:
    """(name, metrics …) of each baseline that has one of these metrics."""
    return [
        (baseline_name(label), *(_baseline(measured, m) for m in names))
        for label, measured in results.baselines.items()
        if any(m in measured for m in names)
    ]


def _baseline(measured: dict[str, float], metric: str) -> Estimate | None:
    if metric not in measured:
        return None
    return Estimate(measured[metric], measured.get(metric + INTERVAL))
