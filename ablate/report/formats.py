"""Table -> CSV and Markdown; LaTeX is in `latex`, the page's HTML is the template's."""

from __future__ import annotations

import csv
import io

from ablate.report.blocks import Table
from ablate.report.names import SYMBOLS, Estimate, Item, text

MARKDOWN = {sign: f"\\{sign}" for sign in "\\|*_`<"} | {"\n": " "}


LETTERS = str.maketrans({symbol: knob for knob, symbol in SYMBOLS.items()} | {"−": "-"})
"""The letters of the paper, spelt: a CSV file is for programs, and should join with others."""


def to_csv(table: Table) -> str:
    """Full precision, a second column for half-widths; rows set apart are left out."""
    wide = [_has_half(table, i) for i in range(len(table.header))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        name
        for column, halves in zip(table.header, wide, strict=True)
        for name in ([column.key, f"{column.key}_half_width"] if halves else [column.key])
    )
    for row in table.rows:
        writer.writerow(
            value
            for item, halves in zip(row, wide, strict=True)
            for value in (_pair(item) if halves else _pair(_spelt(item))[:1])
        )
    return out.getvalue()


def _has_half(table: Table, index: int) -> bool:
    items = [row[index] for row in table.rows]
    return any(isinstance(item, Estimate) and item.half is not None for item in items)


def _spelt(item: Item) -> Item:
    """χ = 0.995 as chi = 0.995."""
    return item.translate(LETTERS) if isinstance(item, str) else item


def _pair(item: Item) -> tuple[Item, Item]:
    return (item.value, item.half) if isinstance(item, Estimate) else (item, None)


def to_md(table: Table) -> str:
    """A pipe table, the best row in bold; rows set apart come last, in italics."""
    rule = ["---" if column.left else "---:" for column in table.header]
    lines = [_md_line([md(column.label) for column in table.header]), _md_line(rule)]
    for place, row in enumerate(table.rows):
        bold = "**" * (place == table.bold)
        items = (column.shown(item) for column, item in zip(table.header, row, strict=True))
        lines.append(_md_line([f"{bold}{md(text(item))}{bold}" for item in items]))
    for row in table.apart:
        label, *rest = (md(text(item)) for item in row)
        blank = [""] * (len(table.header) - len(row))
        lines.append(_md_line([f"*{label}*", *blank, *rest]))
    return "\n".join(lines)


def md(plain: str) -> str:
    """Text on one line with the characters escaped that Markdown would interpret."""
    return "".join(MARKDOWN.get(letter, letter) for letter in plain)


def _md_line(items: list[str]) -> str:
    return f"| {' | '.join(items)} |"
