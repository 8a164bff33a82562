"""StudyResults -> what each figure shows, as data: `plots` draws it, tests read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ablate.report.effects import by_value
from ablate.report.names import (
    Estimate,
    better,
    configuration,
    estimate,
    knob_name,
    leaks,
    shown,
    text,
)
from ablate.report.tables import (
    contenders,
    front,
    is_scale,
    knob_values,
    metric_label,
    pruned_trials,
    ranking,
    varied,
)
from ablate.results import StudyResults, Trial

WIDE = 10
"""A positive axis that spans more than this factor is logarithmic."""


class Dot(NamedTuple):
    """One trial in a figure."""

    trial: int
    label: str
    x: float
    y: Estimate
    best: bool = False
    leaks: bool = False
    early: bool = False  # given up before its last sample


class Mark(NamedTuple):
    """A baseline: a line across the figure."""

    label: str
    value: float


class Axis(NamedTuple):
    label: str
    log: bool = False


class Ladder(NamedTuple):
    """The best trials, one to a line, best on top; x counts the lines."""

    axis: Axis
    dots: list[Dot]
    near: list[Mark]
    far: list[Mark]  # off the scale: named, not drawn


class Panel(NamedTuple):
    """One knob against the objective. Kinds stand at 0, 1, … of x, best mean first; those without a
    complete trial come last and have none."""

    axis: Axis
    dots: list[Dot]
    kinds: Sequence[str] = ()
    means: Sequence[float] = ()


class Panels(NamedTuple):
    axis: Axis  # the objective's
    panels: list[Panel]


class Scatter(NamedTuple):
    """Objective against cost, or two objectives with their Pareto front."""

    x: Axis
    y: Axis
    dots: list[Dot]
    near: list[Mark]
    front: list[tuple[float, float]]


def is_wide(values: Iterable[float]) -> bool:
    """All positive, and spanning more than a factor WIDE?"""
    values = list(values)
    return bool(values) and min(values) > 0 and max(values) / min(values) > WIDE


def axis(label: str, values: Iterable[float]) -> Axis:
    return Axis(label, is_wide(values))


def objective_axis(record: StudyResults, trials: list[Trial], index: int = 0) -> Axis:
    metric = record.objectives[index].metric
    return axis(_objective_label(record, index), (t.metrics[metric] for t in trials))


def _objective_label(record: StudyResults, index: int = 0) -> str:
    objective = record.objectives[index]
    return f"{metric_label(record, objective.metric)} ({better(objective)})"


def marks(record: StudyResults, dots: list[Dot], log: bool) -> tuple[list[Mark], list[Mark]]:
    """Baselines (near, far): near is within a span of the dots, or positive on a log axis."""
    metric = record.objectives[0].metric
    sticks = [Mark(name, v[metric]) for name, v in record.baselines.items() if metric in v]
    low = min(d.y.value - (d.y.half or 0) for d in dots)
    high = max(d.y.value + (d.y.half or 0) for d in dots)
    reach = high - low

    def near(mark: Mark) -> bool:
        return mark.value > 0 if log else low - reach <= mark.value <= high + reach

    return [m for m in sticks if near(m)], [m for m in sticks if not near(m)]


MOST_NAMED = 3
"""Knobs to tell a configuration by, in a figure."""


def ladder(record: StudyResults, count: int = 12) -> Ladder | None:
    """The objective of the best trials against the baselines; None without a complete trial."""
    top = ranking(record)[:count]
    if not top:
        return None
    knobs = _telling(record, top)
    dots = [
        _dot(record, t, float(line), f"{configuration(t, knobs)}  #{t.number}".strip())
        for line, t in enumerate(top)
    ]
    scale = objective_axis(record, top)
    return Ladder(scale, dots, *marks(record, dots, scale.log))


def _telling(record: StudyResults, shown: list[Trial]) -> list[str]:
    """Knobs to tell these configurations by: all, if a line has room for them; else those in words,
    and what it takes to tell them apart."""
    names = varied(record)
    if len(names) <= MOST_NAMED:
        return names
    told = [knob for knob in names if not is_scale(knob_values(record.trials, knob))]

    def apart(knobs: list[str]) -> int:
        return len({tuple(t.params.get(k) for k in knobs) for t in shown})

    while len(told) < MOST_NAMED and apart(told) < len(shown):
        left = [knob for knob in names if knob not in told]
        told.append(max(left, key=lambda knob: apart([*told, knob])))
    return [knob for knob in names if knob in told]


def choices(record: StudyResults) -> Panels | None:
    """The objective at each value of the knobs that are words; None if there is no such knob."""
    return _panels(record, [_choice(record, k) for k in _seen(record, numbers=False)])


def _choice(record: StudyResults, knob: str) -> Panel:
    seen = knob_values(_with_results(record), knob)
    groups = [group for group in by_value(record, knob) if group.value in seen]
    places = {group.value: float(place) for place, group in enumerate(groups)}
    dots = sorted(_dots(record, knob, places.__getitem__), key=lambda dot: dot.x)
    means = [group.mean for group in groups if group.mean is not None]
    return Panel(Axis(knob_name(knob)), dots, [f"{shown(g.value)}" for g in groups], means)


def sweeps(record: StudyResults) -> Panels | None:
    """The objective against each knob that is a number; None if there is no such knob."""
    return _panels(record, [_sweep(record, k) for k in _seen(record, numbers=True)])


def _sweep(record: StudyResults, knob: str) -> Panel:
    dots = _dots(record, knob, float)
    return Panel(axis(knob_name(knob), (d.x for d in dots)), dots)


def _panels(record: StudyResults, panels: list[Panel]) -> Panels | None:
    if not panels:
        return None
    values = [dot.y.value for panel in panels for dot in panel.dots]
    return Panels(axis(_objective_label(record), values), panels)


def _seen(record: StudyResults, *, numbers: bool) -> list[str]:
    """Knobs that trials with a result have several values of."""
    values = {knob: knob_values(_with_results(record), knob) for knob in varied(record)}
    return [k for k, found in values.items() if len(found) > 1 and is_scale(found) == numbers]


def _with_results(record: StudyResults) -> list[Trial]:
    return [*ranking(record), *(trial for trial, _ in pruned_trials(record))]


def _dots(record: StudyResults, knob: str, place: Callable[[Any], float]) -> list[Dot]:
    """Of the trials that have the knob, placed by its value: complete ones, then those given up."""
    complete = [(t, _dot(record, t, 0.0, "")) for t in ranking(record)]
    early = [(t, Dot(t.number, "", 0.0, y, early=True)) for t, y in pruned_trials(record)]
    return [
        dot._replace(x=place(t.params[knob]), label=text(t.params[knob]))
        for t, dot in (*complete, *early)
        if knob in t.params
    ]


def against_cost(record: StudyResults) -> Scatter | None:
    """The objective against NFE, by sampler; None if NFE is one value, or an objective itself."""
    trials = [t for t in ranking(record) if "nfe" in t.metrics]
    costs = {t.metrics["nfe"] for t in trials}
    if len(costs) < 2 or "nfe" in (o.metric for o in record.objectives):
        return None
    dots = [_dot(record, t, t.metrics["nfe"], str(t.params.get("sampler", ""))) for t in trials]
    scale = objective_axis(record, trials)
    label = "NFE (network evaluations per sample)"
    return Scatter(axis(label, costs), scale, dots, marks(record, dots, scale.log)[0], [])


def tradeoff(record: StudyResults) -> Scatter | None:
    """Two objectives with their Pareto front: the first upwards, the second across."""
    if len(record.objectives) != 2:
        return None
    other = record.objectives[1].metric
    trials = [t for t in ranking(record) if other in t.metrics]
    if not trials:
        return None
    dots = [_dot(record, t, t.metrics[other], str(t.params.get("sampler", ""))) for t in trials]
    metric = record.objectives[0].metric
    corners = sorted((t.metrics[other], t.metrics[metric]) for t in front(record))
    across, up = objective_axis(record, trials, 1), objective_axis(record, trials)
    return Scatter(across, up, dots, marks(record, dots, up.log)[0], corners)


def _dot(record: StudyResults, trial: Trial, x: float, label: str) -> Dot:
    value = estimate(trial, record.objectives[0].metric) or Estimate(float("nan"))
    return Dot(trial.number, label, x, value, trial is contenders(record)[0], leaks(trial))
