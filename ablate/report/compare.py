"""Several studies -> one comparison: a pivot by dataset and family, and a ranking a dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablate.core.errors import UserError
from ablate.report import answer, figures, tables
from ablate.report.blocks import Block, Column, Figure, Paragraph, Row, Table, numbers, words
from ablate.report.evidence import across
from ablate.report.front import COMPARISON, write_front
from ablate.report.measurement import protocols
from ablate.report.names import better, estimate, metric_label
from ablate.report.places import folder_of
from ablate.report.ranking import ranking
from ablate.report.render import fill, replaced
from ablate.report.sections import Built
from ablate.report.summary import dataset, family, headline
from ablate.results import StudyResults, joined

Groups = dict[str, list[StudyResults]]
"""Dataset, or family, -> its studies."""

MOST_QUESTIONS = 2
"""Above the answers; more of them would stand in their way, and each study's page has its own."""


def by_dataset(records: Sequence[StudyResults]) -> Groups:
    """The studies of each dataset; an error if numbers that stand together cannot be compared.

    Numbers of one dataset must have been measured by one protocol. Those of several datasets differ
    in their reference images: they stand in rows of their own and are not ranked.
    """
    groups: Groups = defaultdict(list)
    for record in records:
        if record.objectives[0] != records[0].objectives[0]:
            joined([records[0], record])  # says how they differ
        groups[dataset(record)].append(record)
    for group in groups.values():
        joined(group)
    twice = [r.name for r in records if sum(other.name == r.name for other in records) > 1]
    if twice:
        raise UserError(f"{twice[0]} is named twice; a comparison needs different studies")
    return dict(sorted(groups.items()))


def write_comparison(records: Sequence[StudyResults], reports: Path) -> Path:
    """Write reports/A+B/ for the studies A and B, and return the path of its index.html."""
    groups = by_dataset(records)
    page = replaced(
        comparison_folder(reports, records),
        lambda new: fill(new, _above(records, groups), _sections(groups), _summary(records)),
    )
    write_front(reports)
    return page


def comparison_folder(reports: Path, records: Sequence[StudyResults]) -> Path:
    """reports/digits-adls+digits-asams; of many studies the first and how many more."""
    names = [folder_of(reports, record.name, record.budget).name for record in records]
    more = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2}-more"]
    return reports / "+".join(more)


def _above(records: Sequence[StudyResults], groups: Groups) -> dict[str, Any]:
    questions = list(dict.fromkeys(record.question for record in records))
    shared = _families(groups).values()
    overall = [said for found in shared if (said := across.sentence(found))]
    return {
        "eyebrow": "Comparison of studies",
        "title": _listed([record.name for record in records]),
        "question": " ".join(questions) if len(questions) <= MOST_QUESTIONS else "",
        "answer": [*overall, *(_best_of(name, group) for name, group in groups.items())],
        "state": " ".join(f"{record.name}: {answer.state(record)}" for record in records),
        "facts": (),
        "warning": "",
        "single": "",
    }


def _listed(names: Sequence[str]) -> str:
    """a, b and c"""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _best_of(name: str, group: Sequence[StudyResults]) -> str:
    """On digits: the best is …, of the studies of one dataset."""
    record = joined(group) if len(group) > 1 else group[0]
    place = f"On {name}: " if name else ""
    return place + answer.answer(record)[0]


def _sections(groups: Groups) -> list[Built]:
    made = [Built("Dataset by dataset", [pivot(groups)]), *_across(groups)]
    for name, group in groups.items():
        if len(group) > 1:
            made.append(Built(f"Ranked together: {name or 'one dataset'}", _ranked(name, group)))
    answers: list[Block] = [
        Paragraph(f"{record.name} ({record.budget}): {' '.join(answer.answer(record))}")
        for group in groups.values()
        for record in group
    ]
    made.append(Built("What each study found", answers))
    measured = [
        protocols(group[0])._replace(name=f"protocols-{name or 'all'}")
        for name, group in groups.items()
    ]
    return [*made, Built("How this was measured", measured)]


def _across(groups: Groups) -> list[Built]:
    """A section for each family that several datasets have in common."""
    several = _families(groups)
    built = [
        Built(f"Across datasets: {name}", _renamed(across.blocks(records), name, len(several)))
        for name, records in several.items()
    ]
    return [each for each in built if each.blocks]


def _families(groups: Groups) -> Groups:
    """Family -> its studies, of those that several datasets have."""
    families: dict[str, list[StudyResults]] = defaultdict(list)
    for group in groups.values():
        for record in group:
            families[family(record)].append(record)
    return {name: records for name, records in families.items() if len(records) > 1}


def _renamed(blocks: Sequence[Block], name: str, families: int) -> list[Block]:
    """Blocks whose files have the family's name, too, where there are several families."""
    if families == 1:
        return list(blocks)
    return [
        block._replace(name=f"{block.name}-{name}") if isinstance(block, Table | Figure) else block
        for block in blocks
    ]


def pivot(groups: Groups) -> Table:
    """A row for each dataset, a column for each family: the value to quote of each study."""
    records = [record for group in groups.values() for record in group]
    first, families = records[0], list(dict.fromkeys(family(record) for record in records))
    objective = first.objectives[0]
    header: list[Column] = [words("dataset"), *(numbers(name) for name in families)]
    rows: list[Row] = []
    for name, group in groups.items():
        found = {family(record): _value(record) for record in group}
        rows.append((name or "–", *(found.get(each) for each in families)))
    caption = (
        f"{metric_label(first, objective.metric)} ({better(objective)}) of the best of each study, "
        f"as confirmed on fresh seeds where it was. Compare within a row: datasets have different "
        f"reference images."
    )
    return Table("pivot", caption, header, rows)


def _value(record: StudyResults) -> Any:
    trial = headline(record)
    return estimate(trial, record.objectives[0].metric) if trial else None


def _ranked(name: str, group: Sequence[StudyResults]) -> list[Block]:
    """The ranking of several studies of one dataset: table and figures."""
    both, place = joined(group), f"-{name}" if name else ""
    if not ranking(both):
        return [Paragraph("No configuration is complete yet.")]
    best = tables.best(both)
    blocks: list[Block] = [best._replace(name=f"best{place}")]
    metric = metric_label(both, both.objectives[0].metric)
    bars = answer.NO_INTERVAL if answer.single_seed(both) else "bars: 95 % intervals"
    for kind, shape, what in (
        ("best", figures.ladder(both), "of the best configurations; dashed: baselines"),
        ("cost", figures.against_cost(both), "against what a sample costs; dashed: baselines"),
    ):
        if shape is not None:
            blocks.append(
                Figure(f"{kind}{place}", f"{metric} {what}; {bars}; ringed: the best.", shape)
            )
    return blocks


def _summary(records: Sequence[StudyResults]) -> dict[str, Any]:
    names = [record.name for record in records]
    return {
        "name": "+".join(names),
        "budget": records[0].budget,
        "dataset": "",
        "family": "",
        COMPARISON: names,
    }
