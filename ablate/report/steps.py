"""Parts that tables of a ladder's steps share: the trial of a step, its effect, what it changes."""

from __future__ import annotations

from typing import Any

from ablate.report.names import Estimate, in_order, knob_name, shown, text
from ablate.results import StudyResults, Trial


def changes(results: StudyResults, knobs: dict[str, Any]) -> str:
    """r = law, n = 2: knobs with the values that they get."""
    named = (f"{knob_name(k)} = {text(shown(results, knobs[k]))}" for k in in_order(set(knobs)))
    return ", ".join(named)


def trial_of(results: StudyResults, number: int | None) -> Trial | None:
    return next((trial for trial in results.trials if trial.number == number), None)


def step_names(results: StudyResults) -> dict[int, str]:
    """Trial -> the steps that lead from the base to it: base, + a, … + b, + b alone. Empty without
    a ladder."""
    if not results.ladder:
        return {}
    base, *climbed = results.ladder["cumulative"]
    named: dict[int | None, str] = {base["trial"]: "base"}
    for place, rung in enumerate(climbed):
        named.setdefault(rung["trial"], f"{'… ' * (place > 0)}+ {rung['name']}")
    for step in results.ladder["steps"]:
        named.setdefault(step.get("trial"), f"+ {step['name']}{' alone' * bool(climbed)}")
    return {trial: name for trial, name in named.items() if trial is not None}


def effect(effect: dict[str, Any] | None, metric: str) -> Estimate | None:
    """A change with the half-width of its 95 % interval; None if there is none."""
    if effect is None:
        return None
    found = effect[metric]
    return Estimate(found["value"], (found["high"] - found["low"]) / 2)
