"""Tables as CSV, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io

from ablate.report import formats
from ablate.report.blocks import Table, numbers, words
from ablate.report.names import Estimate

AWKWARD = Table(
    "awkward",
    "100 %\nof it",
    [words("name", "χ"), numbers("L"), numbers("kid", "KID ↓")],
    [(r"a_b & 5% #1 {x} ~ ^ \ $", 3, Estimate(0.0421, 0.0173)), ("a | b\n<i>", None, None)],
    [("no_network", Estimate(0.2))],
)


def test_latex_is_escaped_and_every_line_has_its_cells() -> None:
    tex = formats.to_tex(AWKWARD)
    escaped = r"a\_b \& 5\% \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} \$"
    assert rf"{escaped} & 3 & 0.042 $\pm$ 0.017 \\" in tex
    assert r"$\chi$ & $L$ & KID $\downarrow$ \\" in tex
    assert r"a $|$ b $<$i$>$ & -- & -- \\" in tex
    assert r"\multicolumn{2}{l}{\emph{no\_network}} & 0.2 \\" in tex
    assert tex.splitlines()[0] == "% 100 % of it"
    assert tex.count(r"\midrule") == 2


def test_csv_keeps_full_precision_and_half_widths_and_no_baselines() -> None:
    rows = list(csv.reader(io.StringIO(formats.to_csv(AWKWARD))))
    assert rows[0] == ["name", "L", "kid", "kid_half_width"]
    assert rows[1][1:] == ["3", "0.0421", "0.0173"]
    assert rows[2] == ["a | b\n<i>", "", "", ""]
    assert len(rows) == 3


def test_markdown_stays_on_its_lines() -> None:
    lines = formats.to_md(AWKWARD).splitlines()
    assert lines[1] == "| --- | ---: | ---: |"
    assert lines[3] == r"| a \| b \<i> | – | – |"
    assert lines[4] == r"| *no\_network* |  | 0.2 |"
