"""Table -> LaTeX for a paper: a float with caption and label, booktabs, the best row in bold."""

from __future__ import annotations

import re

from ablate.core.plain_text import plain
from ablate.report.blocks import Column, Row, Table
from ablate.report.names import Item, text

MARKS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "√": r"$\surd$",
    "²": r"\textsuperscript{2}",
    "−": "$-$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "–": "--",
    "…": r"\ldots{}",
    "\u00a0": "~",
    "χ": r"$\chi$",
    "σ": r"$\sigma$",
    "δ": r"$\delta$",
    "Δ": r"$\Delta$",
    "μ": r"$\mu$",
    "κ": r"$\kappa$",
    "ρ": r"$\rho$",
    "η": r"$\eta$",
    **{sign: f"$^{{{digit}}}$" for sign, digit in zip("⁻⁰¹³⁴⁵⁶⁷⁸⁹", "-013456789", strict=True)},
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}

POWER = r" × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
NUMBER = re.compile(rf"(−?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?)(?:{POWER})?")
ESTIMATE = re.compile(rf"\(?(−?[\d.,]+ ± [\d.,]+)(?:\){POWER})?")
LEVEL = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")

SHRUNK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""Shrinks a table that is wider than the text to its width, and leaves others as they are."""

LONG = 40
"""Rows of a table, at most, that is a float; a longer one runs over pages."""

PACKAGES = ("booktabs", "graphicx", "longtable")
"""What a document needs to \\input any of the tables."""


def to_tex(table: Table, study: str = "") -> str:
    r"""A table to \input. Columns that are the same in every row are in the caption instead."""
    kept, alike = _printed(table)
    caption = _sentence(table.caption) + "".join(
        f" Throughout, {_label(table.header[i])} = {_item(table.rows[0][i])}." for i in alike
    )
    label = f"tab:{study}-{table.name}".replace(":-", ":")
    head = [rf"\caption{{{caption}}}", rf"\label{{{label}}}"]
    body = _tabular(table, kept)
    packages = f"% needs the packages {', '.join(PACKAGES)}"
    if len(table.rows) > LONG:
        return "\n".join([packages, *_over_pages(head, body), ""])
    return "\n".join(
        [
            packages,
            r"\begin{table}",
            r"\centering\small",
            *head,
            SHRUNK,
            *body,
            "}",
            r"\end{table}",
            "",
        ]
    )


def _over_pages(head: list[str], body: list[str]) -> list[str]:
    first, *rest, _ = body
    start = first.replace(r"\begin{tabular}", r"{\small\begin{longtable}")
    return [start, *head[:1], f"{head[1]} \\\\", *rest, r"\end{longtable}}"]


def _printed(table: Table) -> tuple[list[int], list[int]]:
    """(columns to print, columns with one value, which the caption can say)."""
    if len(table.rows) < 3 or table.apart or table.grouped:
        return list(range(len(table.header))), []
    columns = [list(each) for each in zip(*table.rows, strict=True)]
    one = [i for i, taken in enumerate(columns) if i > 0 and len(set(taken)) == 1]
    said = [i for i in one if columns[i][0] is not None and table.header[i].label]
    return [i for i in range(len(columns)) if i not in one], said


def _tabular(table: Table, kept: list[int]) -> list[str]:
    columns = "".join("l" if table.header[i].left else "r" for i in kept)
    lines = [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule"]
    lines += [_line([_label(table.header[i]) for i in kept]), r"\midrule"]
    for place, row in enumerate(table.rows):
        again = table.grouped and place > 0 and table.rows[place - 1][0] == row[0]
        cells = ["" if again and i == 0 else _item(table.header[i].shown(row[i])) for i in kept]
        lines.append(_line([_bold(cell) for cell in cells] if place == table.bold else cells))
    lines += [r"\midrule"] * bool(table.rows and table.apart)
    lines += [_apart(row, len(table.header)) for row in table.apart]
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def escape(words: str) -> str:
    """Text with the characters escaped that LaTeX would interpret; control characters are spelt
    out."""
    line = plain(words).replace("\n", " ").strip(" ")
    return "".join(MARKS.get(letter, letter) for letter in line)


def _item(item: Item) -> str:
    """A cell; numbers in mathematics, powers of ten as \\times 10^{-4}."""
    shown = text(item)
    found = NUMBER.fullmatch(shown) if isinstance(item, str) else ESTIMATE.fullmatch(shown)
    found = found or NUMBER.fullmatch(shown)
    if found is None:
        return escape(shown)
    digits, power = found.groups()
    plain = digits.replace("−", "-").replace("±", r"\pm").replace(",", "{,}")
    if plain == shown:
        return plain
    if not power:
        return f"${plain}$"
    inside = f"({plain})" if found.re is ESTIMATE else plain
    return rf"${inside} \times 10^{{{power.translate(LEVEL)}}}$"


def _bold(cell: str) -> str:
    return rf"\textbf{{\boldmath {cell}}}" if "$" in cell else rf"\textbf{{{cell}}}"


def _sentence(caption: str) -> str:
    return escape(" ".join(caption.split()))


def _label(column: Column) -> str:
    """A lone letter is a symbol of the paper."""
    lone = len(column.label) == 1 and column.label not in MARKS
    return f"${column.label}$" if lone else escape(column.label)


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _apart(row: Row, width: int) -> str:
    label, *rest = row
    name = rf"\multicolumn{{{width - len(rest)}}}{{@{{}}l}}{{\emph{{{escape(text(label))}}}}}"
    return _line([name, *(_item(item) for item in rest)])
