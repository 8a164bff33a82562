"""What the answers share: the best trial at a value, the gap between two, and their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablate.report.knobs import distinguishing, knob_values
from ablate.report.names import (
    Estimate,
    configuration,
    estimate,
    knob_name,
    metric_name,
    text,
    trial_name,
)
from ablate.report.paired import Difference, fitting_group
from ablate.report.ranking import contenders
from ablate.results import StudyResults, Trial, Value

UNKNOWN = "one seed without an interval: whether that is more than noise is not known"
MOST_VALUES = 12
"""Values of a knob that are contrasted, at most; a search draws others every time."""

FOLLOWING = ("delta", "rho")
"""Knobs that follow from others."""


def first_metric(results: StudyResults) -> str:
    return results.objectives[0].metric


def sign_of(results: StudyResults, metric: str) -> int:
    """1 if less of the metric is better, -1 if more is."""
    if metric in ("precision", "recall", "density", "coverage"):
        return -1
    return {o.metric: o.sign for o in results.objectives}.get(metric, 1)


def best_at(results: StudyResults, knob: str, among: Sequence[Trial] = ()) -> dict[Value, Trial]:
    """The best contender at each value of a knob, the best of all first. A trial without the knob
    is at no value; of a knob with too many values there is nothing to contrast."""
    field = list(among) or contenders(results)
    if len(knob_values(field, knob)) > MOST_VALUES:
        return {}
    best: dict[Value, Trial] = {}
    for trial in field:
        if knob in trial.params:
            best.setdefault(trial.params[knob], trial)
    return best


def gap(results: StudyResults, one: Trial, other: Trial, metric: str = "") -> Difference | None:
    """One less the other, in confirmed values if both have these; None if they are no pairs."""
    metric = metric or first_metric(results)
    group = fitting_group(results, [one.number, other.number], metric)
    if one.number not in group or other.number not in group:
        return None
    return group.difference(one.number, other.number)


def how_made(results: StudyResults, found: Difference, *trials: Trial) -> str:
    """paired; and a warning where the samples that chose the best are those that compare it."""
    numbers = [trial.number for trial in trials]
    if fitting_group(results, numbers).confirmed or len(contenders(results)) <= len(numbers):
        return found.how
    return f"{found.how}, on the samples by which the best was chosen"


def size(difference: Difference) -> str:
    """0.013 ± 0.007: how large a difference is."""
    return text(Estimate(abs(difference.value), difference.half))


def signed(difference: Difference) -> str:
    """+0.013 ± 0.007: which way it goes, too."""
    shown = text(Estimate(difference.value, difference.half))
    return f"+{shown}" if difference.value > 0 and not shown.startswith("(") else shown


def at(knob: str, value: Value) -> str:
    """χ = 0.995; words that name themselves need no knob."""
    return (
        value
        if isinstance(value, str) and value != "none"
        else f"{knob_name(knob)} = {text(value)}"
    )


def value_of(results: StudyResults, trial: Trial, metric: str = "") -> str:
    """KID 0.042 ± 0.017."""
    metric = metric or first_metric(results)
    return f"{metric_name(results, metric)} {text(estimate(trial, metric))}"


def value_again(results: StudyResults, trial: Trial, metric: str = "") -> str:
    """The value on fresh seeds; the search's if these have none."""
    rows = results.confirmation.get("trials", [])
    number = next((row.get("again") for row in rows if row["trial"] == trial.number), None)
    again = next((each for each in results.confirmations if each.number == number), trial)
    return value_of(results, again, metric)


def bare(results: StudyResults, trial: Trial) -> str:
    """trial 7: adls, class-average, for brackets of their own."""
    return trial_name(results, trial, distinguishing(results))


def named(results: StudyResults, trial: Trial, without: Sequence[str] = ()) -> str:
    """trial 7 (adls, class-average), without knobs that the sentence has already."""
    knobs = [knob for knob in distinguishing(results) if knob not in without]
    what = configuration(results, trial, knobs)
    return f"trial {trial.number}" + f" ({what})" * bool(what)


def listed(parts: Sequence[str]) -> str:
    """a, b and c."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def matched(results: StudyResults, knob: str) -> list[Mapping[Value, Trial]]:
    """The settings of all other knobs that trials with several values of this one share."""
    together: dict[str, dict[Value, Trial]] = {}
    for trial in contenders(results):
        if knob in trial.params:
            others = {k: v for k, v in trial.params.items() if k not in (knob, *FOLLOWING)}
            together.setdefault(str(sorted(others.items())), {})[trial.params[knob]] = trial
    return [taken for taken in together.values() if len(taken) > 1]


def on_average(
    results: StudyResults, knob: str, one: Value, other: Value, metric: str = ""
) -> tuple[int, Difference] | None:
    """(settings of the other knobs that both values share, mean difference over these)."""
    metric = metric or first_metric(results)
    pairs = [each for each in matched(results, knob) if one in each and other in each]
    if not pairs:
        return None
    numbers = [each[value].number for each in pairs for value in (one, other)]
    group = fitting_group(results, numbers, metric)
    if any(number not in group for number in numbers):
        return None
    weights: dict[int, float] = {}
    for each in pairs:
        weights[each[one].number] = 1 / len(pairs)
        weights[each[other].number] = -1 / len(pairs)
    return len(pairs), group.contrast(weights)
