"""StudyResults -> where the best configuration comes from, and which others may be as good."""

from __future__ import annotations

from ablate.core.holm import holm
from ablate.report.answers.wording import gap, named, sign_of, size
from ablate.report.coarse_trials import ranges
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
    Holm; the best is one of them. None if intervals are unknown."""
    group, sign = searched_group(results), results.objectives[0].sign
    others = [t for t in contenders(results) if t.number != best.number and t.number in group]
    if best.number not in group:
        return None
    found = [group.difference(trial.number, best.number) for trial in others]
    if any(each.p is None for each in found):
        return None
    corrected = holm([each.p or 0.0 for each in found])
    pairs = zip(others, found, corrected, strict=True)
    return [best, *(t for t, each, p in pairs if p >= ALPHA or sign * each.value < 0)]


def sentences(results: StudyResults, best: Trial) -> list[str]:
    """Which configurations cannot be distinguished from the best, and where it comes from."""
    return [*_alike(results, best), *_origin(results, best)]


def _alike(results: StudyResults, best: Trial) -> list[str]:
    field = len(contenders(results))
    found = indistinguishable(results, best)
    if found is None or field < 2:
        return []
    if len(found) == 1:
        return [
            f"By the search's values it is better than each of the {field - 1} others (paired"
            " differences, Holm's correction)."
        ]
    which = ranges(sorted(trial.number for trial in found if trial is not best))
    return [
        f"By the search's values {len(found) - 1} of {field - 1} others cannot be distinguished"
        f" from it (paired differences, Holm's correction): {which}."
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
    what = f"the best that was known before it, {origin(results, before)}, {named(results, before)}"
    if found is None or found.half is None:
        return [f"The search found it; whether it is better than {what} is not known."]
    if found.clear and sign * found.value < 0:
        return [f"The search found it: it is better than {what} by {size(found)} ({found.how})."]
    return [
        f"The search found it, and nothing that is clearly better than {what}: the difference is"
        f" {size(found)} ({found.how})."
    ]
