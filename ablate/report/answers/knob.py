"""`answers = "schedule"`: the values of a knob, each at its best setting of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ablate.core.asked import Asked
from ablate.core.holm import holm
from ablate.report.answers.wording import (
    UNKNOWN,
    at,
    best_at,
    first_metric,
    gap,
    how_made,
    listed,
    on_average,
    sign_of,
    signed,
    size,
)
from ablate.report.names import bracketed, estimate, knob_name, metric_name, number, text
from ablate.report.paired import ALPHA, Difference
from ablate.results import StudyResults, Trial, Value

MOST_NAMED = 4
"""Values that a sentence names one by one, at most."""

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
    """The schedule with the best KID is ve (0.020 ± 0.002): better than constant by …"""
    (value, winner), *others = best.items()
    found = [(other, gap(results, winner, trial)) for other, trial in others]
    known = [(other, each) for other, each in found if each is not None]
    if any(each.half is None for _, each in known):
        ahead = listed([f"{at(knob, other)} by {size(each)}" for other, each in known])
        opening = f"The {knob_name(knob)} with the best mean {_value(results, value, winner)}"
        return [f"{opening}, ahead of {ahead} ({UNKNOWN})."]
    beaten, alike = _told_apart(results, known)
    which = "the best" if beaten and not alike else "the best mean"
    opening = f"The {knob_name(knob)} with {which} {_value(results, value, winner)}"
    parts = [f"better than {_nearest(knob, beaten, ' by {}'.format)}"] if beaten else []
    parts += [f"no difference shows from {_nearest(knob, alike, _aside)}"] if alike else []
    if not parts:
        return [f"{opening}."]
    how = f"95 %, {how_made(results, known[0][1], *best.values())}"
    setting = f"each value of {knob_name(knob)} at its best setting of the other knobs"
    return [f"{opening}: {'; '.join(parts)} ({how}), {setting}."]


def _value(results: StudyResults, value: Value, trial: Trial) -> str:
    """KID is class-gaussian (0.020 ± 0.002)"""
    metric = first_metric(results)
    measured = bracketed(text(estimate(trial, metric)))
    return f"{metric_name(results, metric)} is {text(value)} {measured}"


def _nearest(knob: str, gaps: Gaps, form: Callable[[str], str]) -> str:
    """a by 0.01 ± 0.002, b by 0.1 ± 0.02 and 3 others by 0.2 or more."""
    near = gaps if len(gaps) <= MOST_NAMED + 1 else gaps[:MOST_NAMED]
    far = gaps[len(near) :]
    parts = [f"{at(knob, other)}{form(size(each))}" for other, each in near]
    if far:
        least = min(abs(each.value) for _, each in far)
        parts.append(f"{len(far)} others{form(f'{number(least, 2)} or more')}")
    return listed(parts)


def _aside(shown: str) -> str:
    return f" {bracketed(shown)}"


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
    counts = {count for _, count, _ in shared}
    over = f" {counts.pop()}" if len(counts) == 1 else ""
    parts = [
        f"{signed(mean)} with {at(knob, other)}" + f" ({count} settings)" * (not over)
        for other, count, mean in shared
    ]
    return [
        f"On average over the{over} settings of the other knobs that values share, {name} differs"
        f" from that with {at(knob, first)} by {listed(parts)} (paired)."
    ]
