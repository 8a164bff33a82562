"""The registry of sections: one record is a part of the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.report import render, sections, shapes
from ablate.report.blocks import Attachment, Block, Figure, Paragraph, Table, numbers, words
from ablate.results import StudyResults
from tests.report.reading import files
from tests.support.records import empty, no_pictures, png, study


@pytest.fixture
def toy_section() -> Iterator[sections.Section]:
    """What another package's section may be: text, a table and a figure that it drew itself."""

    def build(results: StudyResults, context: sections.Context) -> list[Block]:
        header = [words("seed_use", "use of seeds"), numbers("count")]
        drawn = shapes.Drawn(b"<svg xmlns='http://www.w3.org/2000/svg'/>", png(4, 4, 0))
        return [
            Paragraph(f"{results.name} & its seeds."),
            Table("seeds", "Seeds of the study.", header, [("drawn", 3)], bold=0),
            Figure("dots", "Seeds, drawn elsewhere.", drawn),
            Attachment(Table("aside", "Not shown.", header, [("kept", 4)])),
        ]

    yield sections.SECTIONS.add(sections.Section("seeds", "What the seeds were", build))
    sections.SECTIONS.remove("seeds")


def test_a_section_is_one_record(toy_section: sections.Section, tmp_path: Path) -> None:
    """Its heading, text, table and figure are in the page, the Markdown file and the folders."""
    page = render.write(study(), no_pictures, tmp_path / "r")
    html, markdown = (
        (tmp_path / "r" / name).read_text(encoding="utf-8") for name in ("index.html", "report.md")
    )
    assert page == tmp_path / "r" / "index.html"
    assert f"<h2>{toy_section.title}</h2>" in html
    assert f"## {toy_section.title}\n" in markdown
    assert "<p>fashion-start &amp; its seeds.</p>" in html
    assert '<tr class="first"><td class="left">drawn</td><td>3</td></tr>' in html
    assert "<b>Table 7.</b> Seeds of the study." in html  # after the six of our first sections
    assert "<b>Figure 7.</b> Seeds, drawn elsewhere." in html
    assert "| **drawn** | **3** |" in markdown
    assert "![Seeds, drawn elsewhere.](figures/dots.png)" in markdown
    assert "Not shown." not in html + markdown
    assert (tmp_path / "r/tables/seeds.csv").read_text() == "seed_use,count\ndrawn,3\n"
    assert (tmp_path / "r/tables/aside.csv").read_text() == "seed_use,count\nkept,4\n"
    written = set(files(tmp_path / "r"))
    assert {"tables/seeds.tex", "figures/dots.svg", "figures/dots.png"} <= written


def test_sections_of_others_come_before_the_last_of_ours(toy_section: sections.Section) -> None:
    titles = [each.title for each in sections.built(study(), sections.Context(no_pictures))]
    assert titles == [
        "What each step does",
        "The best configurations",
        "Paired differences",
        "What each knob does",
        "Annealing and step",
        "What it costs",
        "Where the variance comes from",
        "What was tried, and at what cost",
        "What it looks like",
        "Beside the paper",
        "What is not ranked, and why",
        "What the seeds were",
        "How this was measured",
    ]


def test_a_section_without_blocks_has_no_heading(tmp_path: Path) -> None:
    section = sections.SECTIONS.add(sections.Section("void", "Nothing here", lambda *_: None))
    try:
        html = render.write(empty(), no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    finally:
        sections.SECTIONS.remove("void")
    assert section.title not in html


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([Table("best", "", [words("a")], [])], "two report sections write tables/best: rename"),
        (["text"], "report section 'bad' returns 'text', which is no block; blocks are Table,"),
    ],
)
def test_a_wrong_section_is_an_error(blocks: list[Block], message: str) -> None:
    sections.SECTIONS.add(sections.Section("bad", "Bad", lambda *_: blocks))
    try:
        with pytest.raises(UserError, match=message):
            sections.built(empty(), sections.Context(no_pictures))
    finally:
        sections.SECTIONS.remove("bad")
