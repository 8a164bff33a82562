"""Tables and paragraphs as lines of text for any width: nothing is cut off.

A table that is too wide for the terminal gets its text wrapped within the columns; where even the
longest words do not fit side by side, every row becomes a block of lines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ablate.core.plain_text import plain

GAP = "  "
"""Between columns."""

LEGIBLE = 20
"""Characters below which no column is wrapped."""

Row = Sequence[str]


def table(header: Row, rows: Sequence[Row], width: int | None = None) -> list[str]:
    """A header, a rule and the rows, in at most `width` characters; None: as wide as need be."""
    cells = [[plain(cell) for cell in row] for row in (header, *rows)]
    widths = fitted(cells, width)
    if widths is None:
        return blocks(cells[0], cells[1:], width)
    head, *body = [_lines(row, widths) for row in cells]
    rule = GAP.join("-" * each for each in widths)
    return [*head, rule, *(line for lines in body for line in lines)]


def fitted(cells: Sequence[Row], width: int | None) -> list[int] | None:
    """The columns' widths: the widest give way first. None if one would get too narrow to read, or
    for its longest word."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if width is None:
        return widths
    words = (max(map(_longest_word, column)) for column in columns)
    least = [min(each, max(word, LEGIBLE)) for each, word in zip(widths, words, strict=True)]
    room = width - len(GAP) * (len(widths) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
        widths[widest] -= 1
    return widths


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _lines(row: Row, widths: Sequence[int]) -> list[str]:
    """One row: as many lines as its longest cell takes."""
    parts = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, parts))
    padded = [part + [""] * (height - len(part)) for part in parts]
    lines = zip(*padded, strict=True)
    return [
        GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def blocks(header: Row, rows: Sequence[Row], width: int | None) -> list[str]:
    """Each row as a block: its first cell, then a line for each other that is not empty."""
    lines: list[str] = []
    for row in rows:
        lines += wrapped(row[0], width)
        for name, cell in zip(header[1:], row[1:], strict=True):
            if cell:
                lines += wrapped(f"{name}: {cell}" if name else cell, width, indent=2)
    return lines


def wrapped(text: str, width: int | None, indent: int = 0) -> list[str]:
    """A paragraph as lines of at most `width`; no word is broken, so that names can be copied."""
    space = " " * indent
    if width is None or indent + len(text) <= width:
        return [space + text]
    hang = space + "  " if indent else space
    found = textwrap.wrap(
        text,
        max(width, indent + 4),
        initial_indent=space,
        subsequent_indent=hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return found or [space]
