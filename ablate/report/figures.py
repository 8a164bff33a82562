"""StudyRecord -> what each figure shows, as data: `plots` draws it, tests read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ablate.record import StudyRecord, Trial
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
    ranking,
    varied,
)

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


class Mark(NamedTuple):
    """A yardstick: a line across the figure."""

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
    """One knob against the objective. Kinds stand at 0, 1, … of x, best mean first."""

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


def objective_axis(record: StudyRecord, trials: list[Trial], index: int = 0) -> Axis:
    objective = record.objectives[index]
    label = f"{metric_label(record, objective.metric)} ({better(objective)})"
    return axis(label, (t.metrics[objective.metric] for t in trials))


def marks(record: StudyRecord, dots: list[Dot], log: bool) -> tuple[list[Mark], list[Mark]]:
    """Yardsticks (near, far): near is within a span of the dots, or positive on a log axis."""
    metric = record.objectives[0].metric
    sticks = [Mark(name, v[metric]) for name, v in record.yardsticks.items() if metric in v]
    low = min(d.y.value - (d.y.half or 0) for d in dots)
    high = max(d.y.value + (d.y.half or 0) for d in dots)
    reach = high - low

    def near(mark: Mark) -> bool:
        return mark.value > 0 if log else low - reach <= mark.value <= high + reach

    return [m for m in sticks if near(m)], [m for m in sticks if not near(m)]


MOST_NAMED = 3
"""Knobs to tell a configuration by, in a figure."""


def ladder(record: StudyRecord, count: int = 12) -> Ladder | None:
    """The objective of the best trials against the yardsticks; None without a complete trial."""
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


def _telling(record: StudyRecord, shown: list[Trial]) -> list[str]:
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


def choices(record: StudyRecord) -> Panels | None:
    """The objective at each value of the knobs that are words; None if there is no such knob."""
    ranked = ranking(record)
    panels = [
        _choice(record, knob)
        for knob in varied(record)
        if not is_scale(knob_values(record.trials, knob)) and len(knob_values(ranked, knob)) > 1
    ]
    return Panels(objective_axis(record, ranked), panels) if panels else None


def _choice(record: StudyRecord, knob: str) -> Panel:
    groups = [g for g in by_value(record, knob) if g.mean is not None]
    dots = [
        _dot(record, trial, float(place), text(group.value))
        for place, group in enumerate(groups)
        for trial in group.ranked
    ]
    kinds = [f"{shown(group.value)}" for group in groups]
    return Panel(Axis(knob_name(knob)), dots, kinds, [g.mean for g in groups if g.mean is not None])


def sweeps(record: StudyRecord) -> Panels | None:
    """The objective against each knob that is a number; None if there is no such knob."""
    ranked = ranking(record)
    panels = [
        _sweep(record, knob, [t for t in ranked if knob in t.params])
        for knob in varied(record)
        if is_scale(values := knob_values(ranked, knob)) and len(values) > 1
    ]
    return Panels(objective_axis(record, ranked), panels) if panels else None


def _sweep(record: StudyRecord, knob: str, trials: list[Trial]) -> Panel:
    dots = [_dot(record, t, float(t.params[knob]), text(t.params[knob])) for t in trials]
    return Panel(axis(knob_name(knob), (d.x for d in dots)), dots)


def against_cost(record: StudyRecord) -> Scatter | None:
    """The objective against NFE, by sampler; None if NFE is one value, or an objective itself."""
    trials = [t for t in ranking(record) if "nfe" in t.metrics]
    costs = {t.metrics["nfe"] for t in trials}
    if len(costs) < 2 or "nfe" in (o.metric for o in record.objectives):
        return None
    dots = [_dot(record, t, t.metrics["nfe"], str(t.params.get("sampler", ""))) for t in trials]
    scale = objective_axis(record, trials)
    label = "NFE (network evaluations per sample)"
    return Scatter(axis(label, costs), scale, dots, marks(record, dots, scale.log)[0], [])


def tradeoff(record: StudyRecord) -> Scatter | None:
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


def _dot(record: StudyRecord, trial: Trial, x: float, label: str) -> Dot:
    value = estimate(trial, record.objectives[0].metric) or Estimate(float("nan"))
    return Dot(trial.number, label, x, value, trial is contenders(record)[0], leaks(trial))
