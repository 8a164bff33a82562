"""`answers = "schedule"`: the values of a knob, each at its best setting of the others."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.core.asked import Asked
from ablate.core.holm import holm
from ablate.report.answers.wording import (
    UNKNOWN,
    at,
    best_at,
    first_metric,
    gap,
    listed,
    on_average,
    sign_of,
    size,
    value_of,
)
from ablate.report.names import Estimate, knob_name, metric_name, text
from ablate.report.paired import ALPHA, Difference
from ablate.results import StudyResults, Trial, Value

Gaps = list[tuple[Value, Difference]]
"""Values of a knob, each with its gap to the best one."""


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """The best value, which others are clearly worse, and the average where settings are shared."""
    (knob,) = wanted.knobs
    best = best_at(results, knob)
    if len(best) < 2:
        return [f"There are no two values of {knob_name(knob)} to contrast."]
    first, *others = best
    return [*contrasted(results, knob, best), *_average(results, knob, first, others)]


def contrasted(results: StudyResults, knob: str, best: dict[Value, Trial]) -> list[str]:
    """constant is the best schedule, with KID 0.02: better than ve by 0.005 ± 0.002 (paired)."""
    (value, winner), *others = best.items()
    opening = f"{at(knob, value)} has the best {value_of(results, winner)}, each value of"
    opening += f" {knob_name(knob)} at its best setting of the other knobs"
    found = [(other, gap(results, winner, trial)) for other, trial in others]
    known = [(other, each) for other, each in found if each is not None]
    if any(each.half is None for _, each in known):
        ahead = listed([f"{at(knob, other)} by {size(each)}" for other, each in known])
        return [f"{opening}; it is ahead of {ahead} ({UNKNOWN})."]
    beaten, alike = _told_apart(results, known)
    parts = []
    if beaten:
        by = listed([f"{at(knob, other)} by {size(each)}" for other, each in beaten])
        parts.append(f"it is better than {by} ({known[0][1].how}, 95 %)")
    if alike:
        names = listed([f"{at(knob, other)} ({size(each)})" for other, each in alike])
        parts.append(f"no difference shows from {names}")
    return [f"{opening}: {'; '.join(parts)}."] if parts else [f"{opening}."]


def _told_apart(results: StudyResults, found: Gaps) -> tuple[Gaps, Gaps]:
    """(worse than the best by Holm's test and by their interval, all others).

    The best by one set of numbers may be behind by another: then it is not better.
    """
    sign = sign_of(results, first_metric(results))
    corrected = holm([1.0 if each.p is None else each.p for _, each in found])
    behind = [
        p < ALPHA and each.clear and sign * each.value < 0
        for (_, each), p in zip(found, corrected, strict=True)
    ]
    beaten = [each for each, is_behind in zip(found, behind, strict=True) if is_behind]
    return beaten, [each for each, is_behind in zip(found, behind, strict=True) if not is_behind]


def _average(results: StudyResults, knob: str, first: Value, others: Sequence[Value]) -> list[str]:
    """Against the value that most settings share with the first."""
    averages = {other: on_average(results, knob, other, first) for other in others}
    shared = [(other, *each) for other, each in averages.items() if each and each[0] > 1]
    if not shared:
        return []
    name = metric_name(results, first_metric(results))
    parts = [
        f"{at(knob, other)} less {at(knob, first)} is {text(Estimate(mean.value, mean.half))}"
        f" over {count} settings"
        for other, count, mean in shared
    ]
    return [f"On average over the settings that values share, {name} of {listed(parts)}."]
