"""Where reports are: a folder for each study and budget, so that none overwrites another's."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from ablate.core.errors import UserError
from ablate.results import StudyResults

PLAIN = "quick"
"""The budget whose reports have the name of the study alone; others append theirs."""

SUMMARY = "summary.json"
"""What the front page needs of a report; it is in the report's folder."""


def folder_of(reports: Path, name: str, budget: str) -> Path:
    """reports/digits-adls for quick, reports/digits-adls-smoke for smoke."""
    return reports / (name if budget == PLAIN else f"{name}-{budget}")


def settled(reports: Path, results: StudyResults) -> Path:
    """The folder for a study's report, empty or with an earlier report of the same budget.

    Earlier versions wrote every budget to reports/<study>: such a report moves to its own folder.
    """
    plain, folder = reports / results.name, folder_of(reports, results.name, results.budget)
    owner = owner_of(plain)
    if owner is not None and owner[0] == results.name and owner[1] != PLAIN:
        place = folder_of(reports, *owner)
        if not place.exists():
            plain.rename(place)
    owner = owner_of(folder)
    if owner is not None and owner != (results.name, results.budget):
        raise UserError(
            f"{folder} has the report of {owner[0]} with budget {owner[1]}, which would be lost: "
            f"move it elsewhere"
        )
    return folder


def owner_of(folder: Path) -> tuple[str, str] | None:
    """(study, budget) of the report in a folder; None if there is none."""
    summary = read_summary(folder)
    if summary is not None:
        return summary["name"], summary["budget"]
    provenance = folder / "tables" / "provenance.csv"  # reports before 0.3 have no summary
    if not provenance.is_file():
        return None
    with provenance.open(encoding="utf-8", newline="") as rows:
        found = {row[0]: row[1] for row in csv.reader(rows) if len(row) > 1}
    return (found["study"], found["budget"]) if {"study", "budget"} <= found.keys() else None


def read_summary(folder: Path) -> dict[str, Any] | None:
    """A report's summary; None if there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if {"name", "budget"} <= found.keys() else None
