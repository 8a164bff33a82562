"""`answers = "published"`: our values beside those of others.

The protocols differ, so that only the order of the rows is compared.
"""

from __future__ import annotations

from typing import Any

from ablate.core.asked import Asked
from ablate.report.answers.wording import UNKNOWN, first_metric, gap, size, value_of
from ablate.report.effects import spearman
from ablate.report.names import metric_name, number
from ablate.report.ranking import ranking
from ablate.results import StudyResults, Trial

Pair = tuple[dict[str, Any], Trial]
"""A published row and ours with its knobs."""


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """Whether their best row is best in ours, and how alike the two orders are."""
    metric = first_metric(results)
    rows = [(row, own) for row in results.published if (own := ours_of(results, row)) is not None]
    rows = [(row, ours) for row, ours in rows if metric in row["metrics"]]
    if len(rows) < 2:
        return ["Fewer than two published rows have a counterpart yet."]
    theirs = min(rows, key=lambda each: float(each[0]["metrics"][metric]))
    ours = min(rows, key=lambda each: each[1].metrics[metric])
    said = [_first(results, ours, theirs)]
    order = spearman([(float(row["metrics"][metric]), o.metrics[metric]) for row, o in rows])
    alike = ""
    if order is not None:
        alike = f"The rank correlation of the {len(rows)} rows, theirs with ours, is {order:.2f}. "
    return [
        *said,
        f"{alike}Networks, features and numbers of samples differ: the values do not compare.",
    ]


def _first(results: StudyResults, ours: Pair, theirs: Pair) -> str:
    """Whether the paper's best row is ours, too."""
    metric = first_metric(results)
    name, printed = metric_name(results, metric), number(theirs[0]["metrics"][metric])
    if ours is theirs:
        return (
            f"The paper's best row by {name}, {_row(ours[0])}, has the best mean of ours, too:"
            f" {value_of(results, ours[1])} ({printed} in the paper)."
        )
    row = f"The paper's best row by {name}, {_row(theirs[0])} ({printed} there)"
    ends = f"{value_of(results, theirs[1])} against {value_of(results, ours[1])}"
    best = f"our best, {_row(ours[0])}"
    found = gap(results, theirs[1], ours[1])
    if found is None or found.half is None:
        return f"{row}, and {best}, in ours: {ends} ({UNKNOWN})."
    if not found.clear:
        return f"No difference shows between {_lower(row)} and {best}: {size(found)} ({found.how})."
    return f"{row}, is worse in ours than {best}, by {size(found)} ({found.how}, 95 %): {ends}."


def _lower(row: str) -> str:
    return row[0].lower() + row[1:]


def ours_of(results: StudyResults, row: dict[str, Any]) -> Trial | None:
    """Our best trial with the knobs of a published row."""
    wanted = row["knobs"].items()
    return next((t for t in ranking(results) if wanted <= t.params.items()), None)


def _row(row: dict[str, Any]) -> str:
    return ", ".join(
        str(value) if isinstance(value, str) else f"{knob} = {value}"
        for knob, value in row["knobs"].items()
    )
