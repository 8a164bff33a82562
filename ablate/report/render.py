"""StudyResults -> a folder: index.html that opens offline, report.md, tables and figures."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from ablate.core.errors import UserError
from ablate.report import formats, plots
from ablate.report.blocks import figures_in, pictures_in, tables_in
from ablate.report.gallery import Fetch
from ablate.report.page import pages
from ablate.report.sections import Context, built
from ablate.results import StudyResults

PARTS = ("index.html", "report.md", "tables", "figures", ".DS_Store")


def write(results: StudyResults, fetch: Fetch, folder: Path) -> Path:
    """Write the whole report, replace an older one by it, and return the path of its index.html.

    A kill leaves the old report or none, and a hidden folder beside it; never half a report.
    """
    folder = folder.resolve()
    _refuse_strangers(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        new, old = Path(scratch, "new"), Path(scratch, "old")
        _fill(new, results, fetch)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    return folder / "index.html"


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


def _fill(folder: Path, results: StudyResults, fetch: Fetch) -> None:
    sections = built(results, Context(fetch))  # before drawing, which takes longest
    blocks = [block for section in sections for block in section.blocks]
    for part in ("tables", "figures"):
        (folder / part).mkdir(parents=True)
    for table in tables_in(blocks):
        _put(folder / "tables" / f"{table.name}.csv", formats.to_csv(table))
        _put(folder / "tables" / f"{table.name}.tex", formats.to_tex(table))
    drawn = {figure.name: plots.drawn(figure.data) for figure in figures_in(blocks)}
    for name, image in drawn.items():
        (folder / "figures" / f"{name}.svg").write_bytes(image.svg)
        (folder / "figures" / f"{name}.png").write_bytes(image.png)
    for picture in pictures_in(blocks):
        if picture.png is not None:
            (folder / "figures" / f"{picture.name}.png").write_bytes(picture.png)
    for name, content in pages(results, sections, drawn).items():
        _put(folder / name, content)


def _put(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8", newline="\n")
