"""The front page over all reports in a folder: reports/index.html."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ablate.core.files import whole_file
from ablate.report.page import rendered
from ablate.report.places import PLAIN, read_summary

ORDER = ("smoke", "quick", "full")
COMPARISON = "comparison"
"""In the summary of a comparison: the names of its studies."""


def write_front(reports: Path) -> Path:
    """Write reports/index.html from the reports' summaries, and return its path."""
    found = summaries(reports)
    studies = [each for each in found if COMPARISON not in each]
    context = {
        "studies": studies,
        "comparisons": [each for each in found if COMPARISON in each],
        "old": unsummarised(reports),
        "families": sorted({each["family"] for each in studies}),
        "datasets": sorted({each["dataset"] for each in studies}),
        "plain": PLAIN,
    }
    page = reports / "index.html"
    with whole_file(page) as scratch:
        scratch.write_text(rendered("front.html", context), encoding="utf-8", newline="\n")
    return page


def summaries(reports: Path) -> list[dict[str, Any]]:
    """Of every report, with its folder; by dataset, family and budget."""
    found = [
        {**summary, "folder": folder.name}
        for folder in sorted(reports.iterdir())
        if (summary := read_summary(folder)) is not None
    ]
    return sorted(found, key=_place)


def unsummarised(reports: Path) -> list[str]:
    """Folders with a report of an earlier version, which has no summary."""
    pages = (path.parent for path in sorted(reports.glob("*/index.html")))
    return [folder.name for folder in pages if read_summary(folder) is None]


def _place(summary: dict[str, Any]) -> tuple[str, str, int, str]:
    return summary["dataset"], summary["family"], _size(summary), summary["folder"]


def _size(summary: dict[str, Any]) -> int:
    """The largest budget comes first."""
    budget = summary["budget"]
    return -ORDER.index(budget) if budget in ORDER else 1
