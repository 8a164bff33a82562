"""StudyResults -> what each figure shows, as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ablate.report.colouring import colour_names, colouring_knob
from ablate.report.effects import by_value
from ablate.report.knobs import distinguishing, is_scale, knob_values, varied
from ablate.report.names import (
    Estimate,
    baseline_name,
    better,
    configuration,
    estimate,
    knob_name,
    metric_label,
    shown,
    text,
)
from ablate.report.ranking import contenders, front, pruned_trials, ranking
from ablate.report.shapes import Axis, Baseline, Dot, Ladder, Panel, Panels, Scatter, axis, axis_of
from ablate.report.steps import step_names
from ablate.results import INTERVAL, StudyResults, Trial


def objective_axis(results: StudyResults, trials: list[Trial], index: int = 0) -> Axis:
    """The axis of one of the objectives, wide enough for these trials."""
    metric = results.objectives[index].metric
    found = (each for t in trials if (each := estimate(t, metric)) is not None)
    return axis_of(objective_label(results, index), found)


def objective_label(results: StudyResults, index: int = 0) -> str:
    objective = results.objectives[index]
    return f"{metric_label(results, objective.metric)} ({better(objective)})"


def baselines(
    results: StudyResults, dots: list[Dot], scale: Axis
) -> tuple[list[Baseline], list[Baseline]]:
    """(near, far): near is within a span of the dots, or anything that a logarithmic axis has."""
    metric = results.objectives[0].metric
    lines = [
        Baseline(baseline_name(name), v[metric], v.get(metric + INTERVAL))
        for name, v in results.baselines.items()
        if metric in v
    ]
    low = min(d.y.value - (d.y.half or 0) for d in dots)
    high = max(d.y.value + (d.y.half or 0) for d in dots)
    reach = high - low

    def near(line: Baseline) -> bool:
        if scale.linear or scale.log:
            return bool(scale.linear) or line.value > 0
        return low - reach <= line.value <= high + reach

    return [line for line in lines if near(line)], [line for line in lines if not near(line)]


MOST_NAMED = 3
"""Knobs of a configuration that a figure names without choosing among them, at most."""

MOST_TO_DISTINGUISH = 4
"""Knobs that a figure chooses to name a configuration, at most: a line has room for no more."""


def ladder(results: StudyResults, count: int = 12) -> Ladder | None:
    """The objective of the best trials against the baselines; None without a complete trial."""
    top = ranking(results)[:count]
    if not top:
        return None
    names = line_names(results, top)
    dots = [_dot(results, t, float(line), names[t.number]) for line, t in enumerate(top)]
    scale = objective_axis(results, top)
    return Ladder(scale, dots, *baselines(results, dots, scale))


def line_names(results: StudyResults, top: list[Trial]) -> dict[int, str]:
    """Trial -> what stands at its line of a figure: its step of a ladder, else its knobs."""
    steps, knobs = step_names(results), naming(results, top)
    return {
        t.number: f"{steps.get(t.number) or configuration(results, t, knobs)}  #{t.number}".strip()
        for t in top
    }


def naming(results: StudyResults, top: list[Trial]) -> list[str]:
    """Knobs that name these configurations: all, if a line has room for them; else those whose
    values are words, and the numbers that distinguish most of them."""
    names = distinguishing(results)
    if max(sum(knob in trial.params for knob in names) for trial in top) <= MOST_NAMED:
        return names
    chosen = [knob for knob in names if not is_scale(knob_values(results.trials, knob))]

    def distinct(knobs: list[str]) -> int:
        return len({tuple(t.params.get(k) for k in knobs) for t in top})

    while len(chosen) < MOST_TO_DISTINGUISH and distinct(chosen) < distinct(names):
        left = [knob for knob in names if knob not in chosen]
        chosen.append(max(left, key=lambda knob: distinct([*chosen, knob])))
    return [knob for knob in names if knob in chosen]


def choices(results: StudyResults) -> Panels | None:
    """The objective at each value of the knobs that are words; None if there is no such knob."""
    return _panels(results, [_choice(results, k) for k in _seen(results, numbers=False)])


def _choice(results: StudyResults, knob: str) -> Panel:
    seen = knob_values(_with_results(results), knob)
    groups = [group for group in by_value(results, knob) if group.value in seen]
    places = {group.value: float(place) for place, group in enumerate(groups)}
    dots = sorted(_dots(results, knob, places.__getitem__), key=lambda dot: dot.x)
    means = [group.mean for group in groups if group.mean is not None]
    return Panel(Axis(knob_name(knob)), dots, [f"{shown(results, g.value)}" for g in groups], means)


def sweeps(results: StudyResults) -> Panels | None:
    """The objective against each knob that is a number, coloured by another knob; None if there is
    no such knob."""
    swept, seen = _seen(results, numbers=True), _with_results(results)
    plain = _panels(results, [_sweep(results, knob) for knob in swept])
    by = colouring_knob(results, swept, seen)
    if plain is None or by is None:
        return plain
    return plain._replace(by=knob_name(by), colours=colour_names(results, by, seen))


def _sweep(results: StudyResults, knob: str) -> Panel:
    dots = _dots(results, knob, float)
    return Panel(axis(knob_name(knob), (d.x for d in dots)), dots)


def _panels(results: StudyResults, panels: list[Panel]) -> Panels | None:
    if not panels:
        return None
    found = [dot.y for panel in panels for dot in panel.dots]
    return Panels(axis_of(objective_label(results), found), panels)


def _seen(results: StudyResults, *, numbers: bool) -> list[str]:
    """Knobs that trials with a result have several values of."""
    values = {knob: knob_values(_with_results(results), knob) for knob in varied(results)}
    return [k for k, taken in values.items() if len(taken) > 1 and is_scale(taken) == numbers]


def _with_results(results: StudyResults) -> list[Trial]:
    return [*ranking(results), *(trial for trial, _ in pruned_trials(results))]


def _dots(results: StudyResults, knob: str, place: Callable[[Any], float]) -> list[Dot]:
    """Of the trials that have the knob, placed by its value: complete ones, then pruned ones."""
    complete = [(t, _dot(results, t, 0.0, "")) for t in ranking(results)]
    pruned = [(t, Dot(t.number, "", 0.0, y, pruned=True)) for t, y in pruned_trials(results)]
    return [
        dot._replace(x=place(t.params[knob]), label=text(t.params[knob]))
        for t, dot in (*complete, *pruned)
        if knob in t.params
    ]


def against_cost(results: StudyResults) -> Scatter | None:
    """The objective against NFE, by sampler; None if NFE is one value, or an objective itself."""
    trials = [t for t in ranking(results) if "nfe" in t.metrics]
    costs = {t.metrics["nfe"] for t in trials}
    if len(costs) < 2 or "nfe" in (o.metric for o in results.objectives):
        return None
    dots = [_dot(results, t, t.metrics["nfe"], str(t.params.get("sampler", ""))) for t in trials]
    scale = objective_axis(results, trials)
    label = "NFE (network evaluations per sample)"
    return Scatter(axis(label, costs), scale, dots, baselines(results, dots, scale)[0], [])


def tradeoff(results: StudyResults) -> Scatter | None:
    """Two objectives with their Pareto front: the first upwards, the second across."""
    if len(results.objectives) != 2:
        return None
    other = results.objectives[1].metric
    trials = [t for t in ranking(results) if other in t.metrics]
    if not trials:
        return None
    dots = [_dot(results, t, t.metrics[other], str(t.params.get("sampler", ""))) for t in trials]
    metric = results.objectives[0].metric
    corners = sorted((t.metrics[other], t.metrics[metric]) for t in front(results))
    across, up = objective_axis(results, trials, 1), objective_axis(results, trials)
    beyond = (-results.objectives[1].sign, -results.objectives[0].sign)
    return Scatter(across, up, dots, baselines(results, dots, up)[0], corners, beyond)


def _dot(results: StudyResults, trial: Trial, x: float, label: str) -> Dot:
    value = estimate(trial, results.objectives[0].metric) or Estimate(float("nan"))
    return Dot(trial.number, label, x, value, trial is contenders(results)[0], results.leaks(trial))
