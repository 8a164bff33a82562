"""StudyResults -> a folder: index.html that opens offline, report.md, tables and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from ablate.core.errors import UserError
from ablate.core.file_names import checked_name
from ablate.core.files import folder_lock
from ablate.report import drawing, formats, latex
from ablate.report.blocks import Details, figures_in, pictures_in, tables_in
from ablate.report.front import write_front
from ablate.report.gallery import Fetch
from ablate.report.page import opening, pages
from ablate.report.places import SUMMARY, settled
from ablate.report.sections import Built, Context, built
from ablate.report.summary import summary
from ablate.results import StudyResults

PARTS = ("index.html", "report.md", "tables", "figures", SUMMARY, ".DS_Store")


def publish(results: StudyResults, fetch: Fetch, reports: Path) -> Path:
    """Write a study's report to the folder of its budget, and the front page over all reports."""
    page = write(results, fetch, settled(reports, results))
    write_front(reports)
    return page


def write(results: StudyResults, fetch: Fetch, folder: Path) -> Path:
    """Write the whole report, replace an older one by it, and return the path of its index.html.

    A kill leaves the old report or none, and a hidden folder beside it; never half a report.
    """

    def fill_in(new: Path) -> None:
        sections = built(results, Context(fetch))  # before drawing, which takes longest
        pictures = pictures_in(block for section in sections for block in section.blocks)
        fill(new, opening(results), sections, summary(results, pictures))

    return replaced(folder, fill_in)


def replaced(folder: Path, fill_in: Callable[[Path], None]) -> Path:
    """Replace a report's folder by one that is filled in beside it; returns its index.html."""
    folder = folder.resolve()
    _refuse_strangers(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        with folder_lock(folder.parent):  # a folder is swept or held, and never in between
            _sweep(folder)
            scratch = Path(held.enter_context(_scratch(folder)))
            held.enter_context(folder_lock(scratch))
        new, old = scratch / "new", scratch / "old"
        fill_in(new)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    return folder / "index.html"


def _scratch(folder: Path) -> TemporaryDirectory[str]:
    return TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.")


def _sweep(folder: Path) -> None:
    """Remove what reports that were killed left beside the folder. One that was killed between its
    two renames left the old report there: it goes back."""
    for left in folder.parent.glob(f".{folder.name}.????????"):
        with folder_lock(left, wait=False) as free:
            if free and {part.name for part in left.iterdir()} <= {"new", "old"}:
                if (left / "old").exists() and not folder.exists():
                    (left / "old").rename(folder)
                rmtree(left)


def _refuse_strangers(folder: Path) -> None:
    """Only a report may be replaced: anything else in the folder would be lost."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; a report is a folder: name another place")
    strangers = sorted(p.name for p in folder.glob("*") if p.name not in PARTS)
    if strangers:
        raise UserError(
            f"{folder} holds {strangers[0]}, which is no part of a report and would be lost: "
            f"move it or name another folder"
        )


def fill(
    folder: Path, above: Mapping[str, Any], sections: list[Built], summary: Mapping[str, Any]
) -> None:
    """Write the pages, tables, figures and the summary of a report to a new folder."""
    blocks = [block for section in sections for block in section.blocks]
    for part in ("tables", "figures"):
        (folder / part).mkdir(parents=True)
    for table in tables_in(blocks):
        _put(_file(folder / "tables", f"{table.name}.csv"), formats.to_csv(table))
    for table in tables_in(block for block in blocks if not isinstance(block, Details)):
        _put(_file(folder / "tables", f"{table.name}.tex"), latex.to_tex(table, summary["name"]))
    drawn = {figure.name: drawing.drawn(figure.data) for figure in figures_in(blocks)}
    for name, image in drawn.items():
        for ending, content in (("svg", image.svg), ("png", image.png), ("pdf", image.pdf)):
            if content:
                _file(folder / "figures", f"{name}.{ending}").write_bytes(content)
    for picture in pictures_in(blocks):
        if picture.png is not None:
            _file(folder / "figures", f"{picture.name}.png").write_bytes(picture.png)
    for name, text in pages(above, sections, drawn).items():
        _put(folder / name, text)
    _put(folder / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")


def _file(folder: Path, name: str) -> Path:
    """A file of the report: names may come from the record, and none leads out of the folder."""
    return folder / checked_name(name, "a report: the name of its file")


def _put(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8", newline="\n")
