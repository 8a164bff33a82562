"""StudyResults -> where the best configuration comes from, and which others may be as good."""

from __future__ import annotations

from ablate.core.holm import holm
from ablate.report.answers.wording import bare, gap, how_made, sign_of, size
from ablate.report.coarse_trials import ranges
from ablate.report.confirmed import distinguished
from ablate.report.paired import ALPHA, searched_group
from ablate.report.ranking import contenders, ranking
from ablate.results import StudyResults, Trial

THEORY, SEARCH = "what theory predicts", "the search"


def origin(results: StudyResults, trial: Trial) -> str:
    """The name of a setting that was given, theory, or the search; empty where a study proposes
    nothing because all its configurations are given."""
    first = len(results.spec.get("first", ()))
    given = results.spec.get("confirm", {}).get("named", {})
    method = results.spec.get("method", "")
    if method in ("", "grid", "ladder"):
        return ""
    if trial.number < first:
        known = [name for name, place in given.items() if place == trial.number]
        return known[0] if known else "the study file"
    return THEORY if method == "law" and trial.number == first else SEARCH


def indistinguishable(results: StudyResults, best: Trial) -> list[Trial] | None:
    """The complete trials that are not worse than the best by paired differences, corrected by
    Holm; the best is one of them. Where fresh seeds measured a trial again, they decide. None if
    intervals are unknown."""
    group, sign = searched_group(results), results.objectives[0].sign
    others = [t for t in contenders(results) if t.number != best.number and t.number in group]
    if best.number not in group:
        return None
    found = [group.difference(trial.number, best.number) for trial in others]
    if any(each.p is None for each in found):
        return None
    corrected = holm([each.p or 0.0 for each in found])
    apart = distinguished(results, best.number)
    alike = [
        trial
        for trial, each, p in zip(others, found, corrected, strict=True)
        if not apart.get(trial.number, p < ALPHA and sign * each.value > 0)
    ]
    return [best, *alike]


def sentences(results: StudyResults, best: Trial) -> list[str]:
    """Which configurations cannot be distinguished from the best, and where it comes from."""
    return [*_alike(results, best), *_origin(results, best)]


def _alike(results: StudyResults, best: Trial) -> list[str]:
    others = len(contenders(results)) - 1
    found = indistinguishable(results, best)
    if found is None or others < 1:
        return []
    how = "paired differences, Holm's correction"
    if len(found) == 1:
        each = f"each of the {others} other configurations" if others > 1 else "the other one"
        return [f"It is better than {each} ({how})."]
    numbers = sorted(trial.number for trial in found if trial is not best)
    again = [number for number in numbers if number in distinguished(results, best.number)]
    fresh = f"; on fresh seeds, too: {ranges(again)}" if again else ""
    return [
        f"Of {others} others {len(numbers)} cannot be distinguished from it ({how}):"
        f" {ranges(numbers)}{fresh}."
    ]


def _origin(results: StudyResults, best: Trial) -> list[str]:
    """Found by the search, and by how much that is better than what was known before it."""
    came = origin(results, best)
    if not came:
        return []
    if came != SEARCH:
        return [f"It is {came}: the search found nothing better."]
    known = [t for t in ranking(results) if origin(results, t) not in ("", SEARCH)]
    if not known:
        return ["The search found it."]
    before = known[0]
    found, sign = gap(results, best, before), sign_of(results, results.objectives[0].metric)
    what = f"{origin(results, before)} ({bare(results, before)}), the best known before"
    if found is None or found.half is None:
        return [f"The search found it; whether it is better than {what}, is not known."]
    how = how_made(results, found, best, before)
    if found.clear and sign * found.value < 0:
        return [f"The search found it: it is better than {what}, by {size(found)} ({how})."]
    return [f"The search found it, but no difference shows from {what}: {size(found)} ({how})."]
