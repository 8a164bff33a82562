"""StudyResults -> how the numbers were measured, and where they come from."""

from __future__ import annotations

import json

from ablate.report.blocks import Details, Paragraph, Row, Table, words
from ablate.report.first_screen import command
from ablate.report.names import arrow, metric_name
from ablate.results import ERROR, StudyResults, Value

SAID = tuple(f"ablate.{name}" for name in ("study", "budget", "hash", "kind", "worked"))
"""Tags that only programs need, or that other rows have."""

WORDS = {"dirty": "uncommitted changes", "ablate-gbm": "ablate"}


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
        (key.replace("_", " "), *(_spoken(protocol.get(key)) for _, protocol in alike))
        for key in keys
    ]
    caption = "Numbers measured in different ways are never put in one ranking."
    return Table("protocols", caption, header, rows)


def _spoken(value: Value | None) -> Value | None:
    """True and False, which records have as words, as yes and no."""
    return {"True": "yes", "False": "no"}.get(str(value), value)


def intervals(results: StudyResults) -> Paragraph:
    """Which variation the intervals hold, how they were computed, and what they leave out."""
    cells = [cell.metrics for trial in results.trials for cell in trial.cells]
    by_image = any(name.endswith(ERROR) for metrics in cells for name in metrics)
    how = (
        "by the influence of every image on a metric, the reference images taken as fixed"
        if by_image
        else "by Student's law over the seeds"
    )
    if results.comparisons:
        how += "; differences are paired, because trials share the noise of a seed"
    left_out = ""
    if "training" not in results.variation:
        left_out = " One network was trained: what another training would give is in no interval."
    return Paragraph(
        f"Errors are 95 % intervals. They hold the variation of {results.variation}, {how}."
        f"{left_out} All tables and figures are made from the record alone, by"
        f" {command(results).partition(' && ')[2]}."
    )


def study_file(results: StudyResults) -> Details:
    """The study as it was run: every key with its value, as JSON."""
    header = [words("key"), words("value")]
    rows: list[Row] = [
        (key, json.dumps(value, ensure_ascii=False))
        for key, value in results.spec.items()
        if value not in (None, [], {}, "")
    ]
    caption = "The resolved study. ablate show prints it."
    return Details("The study as it was run", Table("study", caption, header, rows))


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
        *((_plain(k), value) for k, value in sorted(results.tags.items()) if value and _is_news(k)),
    ]
    caption = "The study, its code, and the versions of what it ran on."
    return Table("provenance", caption, header, rows)


def _is_news(tag: str) -> bool:
    """Whether a tag of the record says what the rows above and the protocols do not."""
    return tag not in SAID and not tag.startswith("protocol.")


def _plain(tag: str) -> str:
    """version.torch -> torch, ablate.dirty -> uncommitted changes."""
    name = tag.removeprefix("ablate.").removeprefix("version.")
    return WORDS.get(name, name.replace("_", " "))
