"""The first sentences of a report: what the contrast is that its study declares, in words.

Each kind of contrast (`core.asked`) has a file beside this one with a function
`(results, asked) -> sentences`.
"""

from __future__ import annotations

from collections.abc import Callable

from ablate.core.asked import Asked, asked
from ablate.report import ladder
from ablate.report.answers import best, by_knob, cost, knob, metrics, published, two_knobs
from ablate.report.ranking import ranking
from ablate.results import StudyResults

KINDS: dict[str, Callable[[StudyResults, Asked], list[str]]] = {
    "steps": lambda results, _: ladder.sentences(results),
    "published": published.sentences,
    "best": best.sentences,
    "metrics": metrics.sentences,
    "cost": cost.sentences,
    "by": by_knob.sentences,
    "knobs": two_knobs.sentences,
    "knob": knob.sentences,
}


def declared(results: StudyResults) -> Asked | None:
    """The contrast that a study declares; older records have none, and one of another version may
    have a form that is not known here."""
    try:
        return asked(str(results.spec.get("answers", "")))
    except ValueError:
        return None


def contrast(results: StudyResults) -> list[str]:
    """The answer to what the study asks; empty if it declares nothing or nothing is there yet."""
    wanted = declared(results)
    if wanted is None or not ranking(results):
        return []
    return KINDS[wanted.kind](results, wanted)
