"""Sections -> index.html and report.md, by two Jinja templates."""

from __future__ import annotations

import base64
import re
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from ablate.report import answer, first_screen, formats
from ablate.report.blocks import Block, Table, visible
from ablate.report.coarse_trials import too_coarse
from ablate.report.inline import inlined, with_shared_glyphs
from ablate.report.look import NARROW, WIDTH
from ablate.report.names import LEAK, Item, text
from ablate.report.packing import for_page
from ablate.report.sections import Built
from ablate.report.shapes import Drawn
from ablate.results import StudyResults

TEMPLATES = {"index.html": "template.html", "report.md": "template.md"}


BROAD = 13
"""Columns of a table, at most, that is printed on upright paper."""


def pages(
    above: Mapping[str, Any], sections: list[Built], drawn: Mapping[str, Drawn]
) -> dict[str, str]:
    """File name -> content of the page and of the Markdown file.

    above: what stands above the sections, as by `opening`. drawn: by the figures' names.
    """
    context = {**above, "sections": shown(sections), "drawn": drawn}
    made = {name: rendered(template, context) for name, template in TEMPLATES.items()}
    return made | {"index.html": with_shared_glyphs(made["index.html"])}


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """A template of this folder, filled in."""
    return _template(template, escaped=template.endswith(".html")).render(context)


def opening(results: StudyResults) -> dict[str, Any]:
    """What stands above the sections."""
    return {
        "eyebrow": f"Ablation study · budget {results.budget}",
        "title": results.name,
        "question": results.question,
        "answer": answer.answer(results),
        "facts": first_screen.facts(results),
        "state": answer.state(results),
        "warning": too_coarse(results) or "",
        "single": answer.NO_INTERVAL if answer.single_seed(results) else "",
    }


def shown(sections: list[Built]) -> list[Built]:
    """The sections and blocks that have something to show."""
    visibly = [Built(s.title, [block for block in s.blocks if visible(block)]) for s in sections]
    return [section for section in visibly if section.blocks]


@cache
def _template(name: str, *, escaped: bool) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"leak": LEAK, "broad": BROAD, "narrow": NARROW}
    environment.filters |= {
        "constant": constant,
        "inline": figure_in_page,
        "lines": lines,
        "slug": slug,
        "text": text,
        "md": formats.md,
        "table": formats.to_md,
        "kind": kind,
        "uri": data_uri,
        "glue": glue,
    }
    return environment.get_template(name)


def kind(block: Block) -> str:
    """The name of the macro that shows a block."""
    return type(block).__name__.lower()


class Cell(NamedTuple):
    """A cell of a table on the page."""

    item: Item
    classes: str


class Line(NamedTuple):
    """A row of a table on the page; the first of its group, or the best one, is in bold."""

    first: bool
    cells: list[Cell]


def lines(table: Table, hidden: Container[int]) -> list[Line]:
    """The rows of a table; a group names itself in its first row alone."""
    classes = [
        " ".join(["left"] * column.left + ["k"] * (place in hidden))
        for place, column in enumerate(table.header)
    ]
    made: list[Line] = []
    for place, row in enumerate(table.rows):
        again = table.grouped and place > 0 and table.rows[place - 1][0] == row[0]
        shown = ("", *row[1:]) if again else row
        items = [column.shown(item) for column, item in zip(table.header, shown, strict=True)]
        cells = [Cell(item, kind) for item, kind in zip(items, classes, strict=True)]
        made.append(Line((table.grouped and not again) or place == table.bold, cells))
    return made


def constant(table: Table) -> frozenset[int]:
    """Columns that are the same in every row: a reader can do without."""
    if len(table.rows) < 2:
        return frozenset()
    columns = zip(*table.rows, strict=True)
    return frozenset(i for i, taken in enumerate(columns) if i > 0 and len(set(taken)) == 1)


def slug(title: str) -> str:
    """A heading as the id of its section: what-it-costs."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def figure_in_page(svg: bytes, name: str, caption: str, whole: float = WIDTH) -> Markup:
    """A figure as SVG of the page; as an image, if it is one that the page cannot take in."""
    found = inlined(svg, name, caption, whole)
    if found is None:
        return Markup('<img src="{}" alt="{}">').format(data_uri(svg), caption)
    return Markup(found)


def data_uri(image: bytes) -> str:
    """An image inside the page: the page opens offline and travels as one file."""
    packed = for_page(image)
    starts = {b"\x89PNG": "png", b"RIFF": "webp"}
    kind = starts.get(packed[:4], "svg+xml")
    return f"data:image/{kind};base64,{base64.b64encode(packed).decode()}"


def glue(sentence: str) -> str:
    """No line break inside χ = 0.995, 0.042 ± 0.017, 3 × 10⁻⁵ or 95 %."""
    for joint in (" = ", " ± ", " × ", " %"):
        sentence = sentence.replace(joint, joint.replace(" ", "\u00a0"))
    return sentence
