"""StudyResults -> the figure of an ablation ladder: the metric after each step."""

from __future__ import annotations

from typing import Any

from ablate.report.blocks import Figure
from ablate.report.figures import baselines
from ablate.report.names import better, estimate, metric_label, metric_name
from ablate.report.ranking import contenders
from ablate.report.shapes import Axis, Dot, Ladder
from ablate.report.steps import trial_of
from ablate.results import StudyResults


def figure(results: StudyResults, metric: str) -> list[Figure]:
    """The figure; none if no trial has a result."""
    data = climb(results, metric)
    if data is None:
        return []
    stands_for = " In brackets: network evaluations a sample"
    if any(" for " in dot.label for dot in data.dots):
        stands_for += ", and those of the literal run that they stand for"
    caption = (
        f"{metric_name(results, metric)} after each step of the ladder, from the base down"
        f"{', on a logarithmic scale' if data.axis.log else ''}; bars: 95 % intervals; ringed: the "
        f"best of these; dashed: baselines.{stands_for}."
    )
    return [Figure("ladder", caption, data)]


def climb(results: StudyResults, metric: str) -> Ladder | None:
    """The metric after each step, from the base down; None if no trial has a result."""
    rungs = results.ladder["cumulative"]
    numbers_of = {rung["trial"] for rung in rungs}
    best = next((t.number for t in contenders(results) if t.number in numbers_of), None)
    dots: list[Dot] = []
    for rung in rungs:
        trial = trial_of(results, rung["trial"])
        value = trial and estimate(trial, metric)
        if trial is None or value is None:
            continue
        label = f"{step_name(rung, rungs)}  ({_cost(rung)})"
        marks = trial.number == best, results.leaks(trial)
        dots.append(Dot(trial.number, label, float(len(dots)), value, *marks))
    if not dots:
        return None
    goals = [o for o in results.objectives if o.metric == metric]
    which = f" ({better(goals[0])})" if goals else ""
    scale = Axis(metric_label(results, metric) + which, all(dot.y.value > 0 for dot in dots))
    near, far = baselines(results, dots, scale) if goals == results.objectives[:1] else ([], [])
    return Ladder(scale, dots, near, far, joined=True)


def step_name(rung: dict[str, Any], rungs: list[dict[str, Any]]) -> str:
    """The base by its name; others as what they add."""
    return str(rung["name"]) if rung is rungs[0] else f"+ {rung['name']}"


def _cost(rung: dict[str, Any]) -> str:
    """20 NFE; 20 NFE for 6,019: what it costs, and what that stands for."""
    nfe, literal = int(rung["nfe"]), int(rung["literal_nfe"])
    return f"{nfe:,} NFE" + f" for {literal:,}" * (literal != nfe)
