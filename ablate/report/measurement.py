"""StudyResults -> how the numbers were measured, and where they come from."""

from __future__ import annotations

from ablate.report.blocks import Row, Table, words
from ablate.report.names import arrow, metric_name
from ablate.results import StudyResults, Value


def protocols(results: StudyResults) -> Table:
    """How each metric was measured: a column for those measured alike."""
    alike: list[tuple[list[str], dict[str, Value]]] = []
    for metric, protocol in results.protocols.items():
        same = next((names for names, other in alike if other == protocol), None)
        if same is None:
            alike.append(([metric], protocol))
        else:
            same.append(metric)
    header = [words("key", "")]
    header += [
        words(names[0], ", ".join(metric_name(results, name) for name in names))
        for names, _ in alike
    ]
    keys = dict.fromkeys(key for _, protocol in alike for key in protocol)
    rows: list[Row] = [
        (key.replace("_", " "), *(protocol.get(key) for _, protocol in alike)) for key in keys
    ]
    caption = "Numbers measured in different ways are never put in one ranking."
    return Table("protocols", caption, header, rows)


def provenance(results: StudyResults) -> Table:
    """What it takes to measure this again."""
    header = [words("what", ""), words("value", "")]
    goals = [f"{metric_name(results, o.metric)} {arrow(o)}" for o in results.objectives]
    rows: list[Row] = [
        ("study", results.name),
        ("budget", results.budget),
        ("hash of the resolved study", results.hash),
        ("objectives", ", ".join(goals)),
        ("95 % intervals hold", results.variation),
        *((key.replace("_", " "), value) for key, value in sorted(results.tags.items())),
    ]
    return Table("provenance", "Where the numbers come from.", header, rows)
