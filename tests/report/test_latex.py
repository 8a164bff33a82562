"""Tables as LaTeX: what one pastes into a paper, and whether it compiles."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ablate.report import latex
from ablate.report.blocks import Table, numbers, words
from ablate.report.names import Estimate
from tests.report.test_formats import AWKWARD


def test_it_is_escaped_and_every_line_has_its_cells() -> None:
    tex = latex.to_tex(AWKWARD, "digits-adls")
    escaped = r"a\_b \& 5\% \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} \$"
    assert rf"{escaped} & 3 & $0.042 \pm 0.017$ \\" in tex
    assert r"$\chi$ & $L$ & KID $\downarrow$ \\" in tex
    assert r"\textbf{\boldmath a $|$ b $<$i$>$} & \textbf{--} & \textbf{--} \\" in tex
    assert r"\multicolumn{2}{@{}l}{\emph{no\_network}} & 0.2 \\" in tex
    assert r"\caption{100 \% of it}" in tex
    assert r"\label{tab:digits-adls-awkward}" in tex
    assert tex.count(r"\midrule") == 2


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (3, "3"),
        (-0.5, "$-0.5$"),
        (1234567.0, "$1{,}234{,}567$"),
        (3.1e-6, r"$3.1 \times 10^{-6}$"),
        (Estimate(3.1e-5, 1.2e-5), r"$(3.1 \pm 1.2) \times 10^{-5}$"),
        (Estimate(-0.04, 0.02), r"$-0.040 \pm 0.020$"),
        ("0.6 to 0.7", "0.6 to 0.7"),
        (None, "--"),
    ],
)
def test_numbers_are_mathematics(item: str | float | Estimate | None, expected: str) -> None:
    table = Table("t", "", [words("name"), numbers("value")], [("a", item), ("b", None)])
    assert rf"a & {expected} \\" in latex.to_tex(table)


def test_what_is_the_same_in_every_row_is_said_once() -> None:
    header = [words("init"), numbers("chi", "χ"), numbers("note"), numbers("kid", "KID")]
    rows = [(name, 0.995, None, 0.1 * i) for i, name in enumerate(("one", "two", "three"))]
    tex = latex.to_tex(Table("t", "Starts.", header, [*rows]))
    assert r"\caption{Starts. Throughout, $\chi$ = 0.995.}" in tex
    assert r"init & KID \\" in tex
    few = latex.to_tex(Table("t", "Starts.", header, [*rows[:2]]))
    assert r"init & $\chi$ & note & KID \\" in few  # two rows may agree by chance


def test_long_tables_run_over_pages_and_others_shrink_to_the_width_of_the_text() -> None:
    header = [numbers("c"), numbers("d")]
    assert latex.SHRUNK in latex.to_tex(Table("t", "", header, [(1, 2)]))
    long = latex.to_tex(Table("t", "", header, [(i, -i) for i in range(latex.LONG + 1)]))
    assert r"\begin{longtable}" in long
    assert r"\begin{table}" not in long


@pytest.mark.latex
def test_every_table_of_a_report_compiles(report: Path, tmp_path: Path) -> None:
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed")
    (tmp_path / "awkward.tex").write_text(latex.to_tex(AWKWARD), encoding="utf-8")
    header = [words("name", "χ"), numbers("kid", "KID ↓")]
    long = Table(
        "long", "Long.", header, [(f"row_{i}", Estimate(1e-5 * i, 1e-6)) for i in range(99)]
    )
    (tmp_path / "long.tex").write_text(latex.to_tex(long), encoding="utf-8")
    tables = sorted((report / "tables").glob("*.tex"))
    assert len(tables) > 5
    inputs = "\n".join(
        rf"\input{{{path.as_posix()}}}"
        for path in [*tables, tmp_path / "awkward", tmp_path / "long"]
    )
    packages = "".join(rf"\usepackage{{{name}}}" for name in latex.PACKAGES)
    (tmp_path / "paper.tex").write_text(
        rf"\documentclass{{article}}{packages}\begin{{document}}{inputs}\end{{document}}"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000
    assert "Overfull \\hbox" not in done.stdout
