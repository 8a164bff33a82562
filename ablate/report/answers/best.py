"""`answers = "best vs the paper's setting"`: the best found against a setting with a name."""

from __future__ import annotations

from ablate.core.asked import Asked
from ablate.report import confirmed
from ablate.report.answers.wording import (
    UNKNOWN,
    first_metric,
    gap,
    named,
    sign_of,
    size,
    value_of,
)
from ablate.report.names import metric_name, text
from ablate.report.ranking import contenders
from ablate.results import StudyResults, Trial


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """By how much the best is better, in confirmed values where there are any."""
    other = with_name(results, wanted.name)
    best = _best(results)
    if other is None or best is None:
        return [f"{wanted.name[0].upper()}{wanted.name[1:]} has no result yet."]
    if best.number == other.number:
        return [f"Nothing that was tried is better than {wanted.name}."]
    found = gap(results, best, other)
    ends = f"{_value(results, best)} against {_value(results, other)}"
    if found is None or found.half is None:
        return [f"The best and {wanted.name}: {ends} ({UNKNOWN})."]
    if not found.clear:
        what = f"No difference shows between the best found, {named(results, best)}, and"
        return [f"{what} {wanted.name}: {ends}, a difference of {size(found)} ({found.how})."]
    better = sign_of(results, first_metric(results)) * found.value < 0
    which = "better" if better else "worse"
    return [
        f"The best found, {named(results, best)}, is {which} than {wanted.name} by {size(found)}"
        f" ({found.how}, 95 %): {ends}."
    ]


def with_name(results: StudyResults, name: str) -> Trial | None:
    """The trial of a configuration that `confirm.named` names."""
    rows = results.confirmation.get("trials", [])
    numbers = [row["trial"] for row in rows if row["name"] == name]
    numbers += [results.spec.get("confirm", {}).get("named", {}).get(name, -1)]
    having = {t.number: t for t in results.trials if first_metric(results) in t.metrics}
    return having.get(numbers[0])


def _best(results: StudyResults) -> Trial | None:
    """The best by confirmed values, else by the search's."""
    return confirmed.searched_best(results) or next(iter(contenders(results)), None)


def _value(results: StudyResults, trial: Trial) -> str:
    for row in results.confirmation.get("trials", []):
        if row["trial"] == trial.number:
            name = metric_name(results, first_metric(results))
            return f"{name} {text(confirmed.row_estimate(row))}"
    return value_of(results, trial)
