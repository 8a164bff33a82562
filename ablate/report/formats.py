"""Table -> CSV and Markdown; LaTeX is in `latex`, the page's HTML is the template's."""

from __future__ import annotations

import csv
import io
import re

from ablate.core.plain_text import plain
from ablate.report.blocks import Table
from ablate.report.names import SYMBOLS, Estimate, Item, text

MARKDOWN = {sign: f"\\{sign}" for sign in "\\|*_`<[]"} | {"\n": " "}
"""What a sign becomes. Without brackets there are neither links nor images."""

ADDRESS = re.compile(r"(https?|ftp|mailto|xmpp)(?=:)|www(?=\.)", re.IGNORECASE)
"""What GitHub makes a link of by itself, before the sign that is escaped to prevent it."""

FORMULA = tuple("=+-@\t\r＝＋－＠")
"""First characters of a cell that a spreadsheet computes instead of showing."""

LETTERS = str.maketrans({symbol: knob for knob, symbol in SYMBOLS.items()} | {"−": "-"})
"""The letters of the paper, spelt: a CSV file is for programs, and should join with others."""


def to_csv(table: Table) -> str:
    """Full precision, a second column for half-widths; rows set apart are left out."""
    wide = [_has_half(table, i) for i in range(len(table.header))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        _inert(name)
        for column, halves in zip(table.header, wide, strict=True)
        for name in ([column.key, f"{column.key}_half_width"] if halves else [column.key])
    )
    for row in table.rows:
        writer.writerow(
            _inert(value)
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


def _inert(item: Item) -> Item:
    """Words that a spreadsheet shows and does not compute, with an apostrophe before them if need
    be; numbers as they are."""
    if not isinstance(item, str):
        return item
    words = plain(item)
    return f"'{words}" if words.startswith(FORMULA) and not _is_number(words) else words


def _is_number(words: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", words, re.ASCII) is not None


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


def md(words: str) -> str:
    """Text on one line with the characters escaped that Markdown would interpret, and those spelt
    out that would control a terminal."""
    escaped = "".join(MARKDOWN.get(letter, letter) for letter in plain(words))
    return ADDRESS.sub(r"\g<0>\\", escaped)


def code(words: str) -> str:
    """Text as code of Markdown, between more backticks than it has in a row."""
    line = " ".join(plain(words).split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence}{line}{fence}" if len(fence) == 1 else f"{fence} {line} {fence}"


def _md_line(items: list[str]) -> str:
    return f"| {' | '.join(items)} |"
