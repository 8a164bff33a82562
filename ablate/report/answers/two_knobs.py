"""`answers = "L vs r"`: which of two knobs moves the objective."""

from __future__ import annotations

from ablate.core.asked import Asked
from ablate.report.answers.wording import UNKNOWN, at, best_at, first_metric, gap, size
from ablate.report.names import estimate, knob_name, metric_name, text
from ablate.results import StudyResults


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """The spread between the best and the worst value of each knob, at the best of the others."""
    name = metric_name(results, first_metric(results))
    first, *others = (_spread(results, knob, name).rstrip(".") for knob in wanted.knobs)
    return ["; ".join([first, *(each[0].lower() + each[1:] for each in others)]) + "."]


def _spread(results: StudyResults, knob: str, name: str) -> str:
    best = best_at(results, knob)
    if len(best) < 2:
        return f"There are no two values of {knob_name(knob)} to contrast."
    (first, winner), *_, (last, loser) = best.items()
    low, high = (text(estimate(trial, first_metric(results))) for trial in (winner, loser))
    ends = f"from {low} ({at(knob, first)}) to {high} ({at(knob, last)})"
    found = gap(results, loser, winner)
    if found is None or found.half is None:
        return f"Over {knob_name(knob)} {name} goes {ends} ({UNKNOWN})."
    if not found.clear:
        what = f"No effect of {knob_name(knob)} shows: each value at its best setting, {name} goes"
        return f"{what} {ends}, a difference of {size(found)} ({found.how})."
    what = f"{knob_name(knob)} moves {name} by {size(found)} ({found.how}), each value at its best"
    return f"{what} setting: {ends}."
