"""Sections -> index.html and report.md, by two Jinja templates."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from ablate.report import answer, formats
from ablate.report.blocks import Block, visible
from ablate.report.coarse_trials import too_coarse
from ablate.report.names import LEAK, text
from ablate.report.sections import Built
from ablate.report.shapes import Drawn
from ablate.results import StudyResults

TEMPLATES = {"index.html": "template.html", "report.md": "template.md"}


def pages(
    results: StudyResults, sections: list[Built], drawn: Mapping[str, Drawn]
) -> dict[str, str]:
    """File name -> content of the page and of the Markdown file; `drawn` by the figures' names."""
    context = {**opening(results), "sections": shown(sections), "drawn": drawn, "leak": LEAK}
    return {
        name: _template(template, escaped=name.endswith(".html")).render(context)
        for name, template in TEMPLATES.items()
    }


def opening(results: StudyResults) -> dict[str, Any]:
    """What stands above the sections."""
    return {
        "title": results.name,
        "question": results.question,
        "answer": answer.answer(results),
        "state": answer.state(results),
        "warning": too_coarse(results) or "",
        "single": answer.NO_INTERVAL if answer.single_seed(results) else "",
    }


def shown(sections: list[Built]) -> list[Built]:
    """The sections and blocks that have something to show."""
    visibly = [Built(s.title, [block for block in s.blocks if visible(block)]) for s in sections]
    return [section for section in visibly if section.blocks]


def _template(name: str, *, escaped: bool) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
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


def data_uri(image: bytes) -> str:
    """An image inside the page: the page opens offline and travels as one file."""
    kind = "png" if image.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def glue(sentence: str) -> str:
    """No line break inside χ = 0.995, 0.042 ± 0.017 or 95 %."""
    for joint in (" = ", " ± ", " %"):
        sentence = sentence.replace(joint, joint.replace(" ", "\u00a0"))
    return sentence
