"""`answers = "published"`: our values beside those of others.

The protocols differ, so that only the order of the rows is compared.
"""

from __future__ import annotations

from typing import Any

from ablate.core.asked import Asked
from ablate.report.answers.wording import first_metric, gap, size, value_of
from ablate.report.effects import spearman
from ablate.report.names import metric_name, number
from ablate.report.ranking import ranking
from ablate.results import StudyResults, Trial


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """Our best row and theirs, and whether the difference of these two in ours is clear."""
    metric = first_metric(results)
    rows = [(row, own) for row in results.published if (own := ours_of(results, row)) is not None]
    rows = [(row, ours) for row, ours in rows if metric in row["metrics"]]
    if len(rows) < 2:
        return ["Fewer than two published rows have a counterpart yet."]
    theirs = min(rows, key=lambda each: float(each[0]["metrics"][metric]))
    ours = min(rows, key=lambda each: each[1].metrics[metric])
    name = metric_name(results, metric)
    said = [
        f"By our {name} the best row is {_row(ours[0])}, with {value_of(results, ours[1])}; the"
        f" paper has its best {name} in {'the same row' if ours is theirs else _row(theirs[0])}"
        f" ({number(ours[0]['metrics'][metric])} there for ours)."
    ]
    if ours is not theirs and (found := gap(results, theirs[1], ours[1])) is not None:
        clear = "is behind by" if found.clear else "differs in ours by no more than noise,"
        said.append(f"The paper's best row {clear} {size(found)} ({found.how}).")
    order = spearman([(float(row["metrics"][metric]), o.metrics[metric]) for row, o in rows])
    if order is not None:
        said.append(
            f"The rank correlation of the {len(rows)} rows, theirs against ours, is {order:.2f}."
        )
    return [*said, "Networks, features and numbers of samples differ: the values do not compare."]


def ours_of(results: StudyResults, row: dict[str, Any]) -> Trial | None:
    """Our best trial with the knobs of a published row."""
    wanted = row["knobs"].items()
    return next((t for t in ranking(results) if wanted <= t.params.items()), None)


def _row(row: dict[str, Any]) -> str:
    return ", ".join(
        str(value) if isinstance(value, str) else f"{knob} = {value}"
        for knob, value in row["knobs"].items()
    )
