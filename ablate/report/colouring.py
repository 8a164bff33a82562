"""StudyResults -> the knob that colours the dots of a sweep, so that a crossing of two is seen."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.report.effects import by_value
from ablate.report.knobs import knob_values, varied
from ablate.report.names import NONE, shown, text
from ablate.results import StudyResults, Trial

MOST_COLOURS = 6
"""Values of a knob, at most: more colours than these are hard to tell from each other."""


def colouring_knob(results: StudyResults, swept: Sequence[str], seen: list[Trial]) -> str | None:
    """Of the knobs with few values the one that moves the mean of the objective most; None if there
    is none but the only one that is swept."""
    few = [k for k in varied(results) if 1 < len(knob_values(seen, k)) <= MOST_COLOURS]
    others = [knob for knob in few if list(swept) != [knob]]
    return max(others, key=lambda knob: _span(results, knob), default=None)


def _span(results: StudyResults, knob: str) -> float:
    """How far apart the means at the knob's values are."""
    means = [group.mean for group in by_value(results, knob) if group.mean is not None]
    return max(means) - min(means) if means else 0.0


def colour_names(results: StudyResults, knob: str, seen: list[Trial]) -> dict[int, str]:
    """Trial -> its value of the knob, as readers see it, in the order of the values."""
    named: dict[int, str] = {}
    for value in knob_values(seen, knob):
        label = text(shown(results, value))
        named |= {t.number: label for t in seen if t.params.get(knob) == value}
    return named | {t.number: NONE for t in seen if knob not in t.params}
