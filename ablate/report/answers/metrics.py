"""`answers = "precision vs recall over chi"`: what a knob buys by one metric, at what cost.

Every value is compared with the one at which the knob does nothing.
"""

from __future__ import annotations

from ablate.core.asked import Asked
from ablate.report.answers.wording import (
    FOLLOWING,
    UNKNOWN,
    at,
    best_at,
    first_metric,
    gap,
    on_average,
    sign_of,
    signed,
    value_of,
)
from ablate.report.knobs import distinguishing
from ablate.report.names import bracketed, configuration, knob_name, metric_name
from ablate.report.paired import Difference
from ablate.results import StudyResults, Trial, Value

OFF = {"chi": 1.0, "guidance": 1.0, "score_scale": 1.0, "n": 0}
"""The value at which a knob does nothing; of others the lowest is what is compared with."""

NOTHING = {"chi": "no annealing", "guidance": "no guide"}
"""What that value means, where a symbol or a weight of 1 does not say it."""


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """Each value against the one that does nothing, by both metrics and by the objective; first the
    value that is best by the objective."""
    (knob,) = wanted.knobs
    best = best_at(results, knob)
    if len(best) < 2:
        return [f"There are no two values of {knob_name(knob)} to contrast."]
    off = OFF.get(knob) if OFF.get(knob) in best else min(best, key=str)
    assert off is not None
    names = list(dict.fromkeys([*wanted.metrics, first_metric(results)]))
    others = [value for value in best if value != off]
    off_has = ", ".join(value_of(results, best[off], name) for name in names)
    return [
        _against(results, knob, others[0], off, best, names, NOTHING.get(knob, "")),
        f"{at(knob, off)} has {off_has}, as all values at its best setting of the other knobs.",
        *(_against(results, knob, value, off, best, names) for value in others[1:]),
        *(each for value in others for each in _average(results, knob, value, off, names)),
    ]


def _against(
    results: StudyResults,
    knob: str,
    value: Value,
    off: Value,
    best: dict[Value, Trial],
    names: list[str],
    nothing: str = "",
) -> str:
    found = {name: gap(results, best[value], best[off], name) for name in names}
    setting = _setting(results, knob, best[value], best[off])
    meant = f" ({nothing})" if nothing and off == OFF.get(knob) else ""
    ends = f"{at(knob, value)}{setting} against {at(knob, off)}{meant}"
    return f"{ends}: {'; '.join(_said(results, found))}."


def _setting(results: StudyResults, knob: str, one: Trial, other: Trial) -> str:
    """(guide low = 0.1): the other knobs that one trial has and the other has not, or otherwise"""
    others = [k for k in distinguishing(results) if k not in (knob, *FOLLOWING)]
    knobs = [k for k in others if one.params.get(k) != other.params.get(k)]
    what = configuration(results, one, knobs)
    return f" ({what})" * bool(what)


def _average(
    results: StudyResults, knob: str, value: Value, off: Value, names: list[str]
) -> list[str]:
    """The same over all settings that both values share."""
    averages = {name: on_average(results, knob, value, off, name) for name in names}
    counts = {each[0] for each in averages.values() if each is not None}
    if not counts or max(counts) < 2:
        return []
    found = {name: None if each is None else each[1] for name, each in averages.items()}
    shared = f"Over the {max(counts)} settings that {at(knob, value)} and {at(knob, off)} share"
    return [f"{shared}, on average: {'; '.join(_said(results, found))}."]


def _said(results: StudyResults, found: dict[str, Difference | None]) -> list[str]:
    """KID better by …; no difference of recall shows (…)."""
    parts: list[str] = []
    for metric, each in found.items():
        name = metric_name(results, metric)
        if each is None:
            parts.append(f"{name} was not measured in pairs")
        elif each.half is None:
            parts.append(f"{name} {signed(each)} ({UNKNOWN})")
        elif each.clear:
            which = "better" if sign_of(results, metric) * each.value < 0 else "worse"
            parts.append(f"{name} is {which} {bracketed(signed(each))}")
        else:
            parts.append(f"no difference of {name} shows {bracketed(signed(each))}")
    return parts
