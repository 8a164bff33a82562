"""Table -> CSV, LaTeX and Markdown; the page's HTML is the template's."""

from __future__ import annotations

import csv
import io

from ablate.report.blocks import Column, Row, Table
from ablate.report.names import Estimate, Item, text

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "∞": r"$\infty$",
    "×": r"$\times$",
    "−": "$-$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "–": "--",
    "χ": r"$\chi$",
    "σ": r"$\sigma$",
    "δ": r"$\delta$",
    "μ": r"$\mu$",
    "κ": r"$\kappa$",
    "ρ": r"$\rho$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}

MARKDOWN = {sign: f"\\{sign}" for sign in "\\|*_`<"} | {"\n": " "}


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
            for value in (_pair(item) if halves else _pair(item)[:1])
        )
    return out.getvalue()


def _has_half(table: Table, index: int) -> bool:
    items = [row[index] for row in table.rows]
    return any(isinstance(item, Estimate) and item.half is not None for item in items)


def _pair(item: Item) -> tuple[Item, Item]:
    return (item.value, item.half) if isinstance(item, Estimate) else (item, None)


def to_tex(table: Table) -> str:
    """A booktabs tabular to \\input; the caption stands above it as a comment."""
    columns = "".join("l" if column.left else "r" for column in table.header)
    lines = [f"% {' '.join(table.caption.split())}", r"% needs \usepackage{booktabs}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [_tex_line([_tex_label(column) for column in table.header]), r"\midrule"]
    lines += [_tex_line([escape(text(item)) for item in row]) for row in table.rows]
    lines += [r"\midrule"] * bool(table.rows and table.apart)
    lines += [_tex_apart(row, len(table.header)) for row in table.apart]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def escape(plain: str) -> str:
    """Text with the characters escaped that LaTeX would interpret."""
    return "".join(LATEX.get(letter, letter) for letter in " ".join(plain.split()))


def _tex_label(column: Column) -> str:
    """A lone letter is a symbol of the paper."""
    lone = len(column.label) == 1 and column.label not in LATEX
    return f"${column.label}$" if lone else escape(column.label)


def _tex_line(items: list[str]) -> str:
    return " & ".join(items) + r" \\"


def _tex_apart(row: Row, width: int) -> str:
    label, *rest = (escape(text(item)) for item in row)
    return _tex_line([rf"\multicolumn{{{width - len(rest)}}}{{l}}{{\emph{{{label}}}}}", *rest])


def to_md(table: Table) -> str:
    """A pipe table; rows set apart come last, in italics."""
    rule = ["---" if column.left else "---:" for column in table.header]
    lines = [_md_line([md(column.label) for column in table.header]), _md_line(rule)]
    lines += [_md_line([md(text(item)) for item in row]) for row in table.rows]
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
