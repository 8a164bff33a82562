"""How tests read a report: its files, blocks and columns."""

from __future__ import annotations

from pathlib import Path

from ablate.report import gallery, sections
from ablate.report.blocks import Block, Table, figures_in, tables_in
from ablate.report.names import Item
from ablate.results import Objective, StudyResults
from tests.support.records import no_pictures, study


def two_objectives() -> StudyResults:
    """The synthetic study with NFE as its second objective."""
    objectives = [Objective("kid", "minimize"), Objective("nfe", "minimize")]
    return study()._replace(objectives=objectives)


def files(folder: Path) -> dict[str, bytes]:
    """Path within the folder -> content, of every file."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def all_blocks(results: StudyResults, fetch: gallery.Fetch = no_pictures) -> list[Block]:
    """The blocks of all sections."""
    built = sections.built(results, sections.Context(fetch))
    return [block for section in built for block in section.blocks]


def all_tables(results: StudyResults) -> dict[str, Table]:
    """Every table of the report by its name, shown or not."""
    return {table.name: table for table in tables_in(all_blocks(results))}


def caption_of(results: StudyResults, name: str) -> str:
    """The caption of the figure of this name."""
    (found,) = (each for each in figures_in(all_blocks(results)) if each.name == name)
    return found.caption


def column(table: Table, key: str) -> list[Item]:
    """The cells of one column."""
    index = [c.key for c in table.header].index(key)
    return [row[index] for row in table.rows]
