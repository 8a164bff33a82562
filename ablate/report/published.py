"""StudyResults -> the table of published values beside ours."""

from __future__ import annotations

from typing import Any

from ablate.report.blocks import Row, Table, numbers, words
from ablate.report.names import (
    Item,
    estimate,
    in_order,
    knob_name,
    metric_label,
    metric_name,
    shown,
)
from ablate.report.ranking import ranking
from ablate.results import StudyResults


def published(results: StudyResults) -> Table:
    """Values that others published for the same knobs, beside ours."""
    entries = results.published
    knobs = in_order({knob for entry in entries for knob in entry["knobs"]})
    names = list(dict.fromkeys(name for entry in entries for name in entry["metrics"]))
    header = [*(words(knob, knob_name(knob)) for knob in knobs), numbers("trial")]
    for name in names:
        header += [numbers(f"{name}_theirs", f"{metric_name(results, name)}, theirs")]
        header += [numbers(f"{name}_ours", f"{metric_label(results, name)}, ours")]
    caption = (
        "Published values beside ours, for the same knobs. Not to be ranked together: other "
        "networks, other features, another number of samples (see below how ours were measured)."
    )
    rows = [_published_row(results, entry, knobs, names) for entry in entries]
    return Table("published", caption, header, rows)


def _published_row(
    results: StudyResults, entry: dict[str, Any], knobs: list[str], names: list[str]
) -> Row:
    """The knobs, our best trial that has them, and each metric of theirs and of that trial."""
    wanted = entry["knobs"]
    ours = next((t for t in ranking(results) if wanted.items() <= t.params.items()), None)
    settings = [shown(results, wanted[knob]) if knob in wanted else None for knob in knobs]
    values: list[Item] = []
    for name in names:
        values += [entry["metrics"].get(name), ours and estimate(ours, name)]
    return (*settings, ours and ours.number, *values)
