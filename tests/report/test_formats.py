"""Tables as CSV and Markdown."""

from __future__ import annotations

import csv
import io
import re

import pytest

from ablate.report import formats
from ablate.report.blocks import Column, Table, numbers, words
from ablate.report.names import Estimate

AWKWARD = Table(
    "awkward",
    "100 %\nof it",
    [words("name", "χ"), numbers("L"), numbers("kid", "KID ↓")],
    [(r"a_b & 5% #1 {x} ~ ^ \ $", 3, Estimate(0.0421, 0.0173)), ("a | b\n<i>", None, None)],
    [("no_network", Estimate(0.2))],
    bold=1,
)


def test_csv_keeps_full_precision_and_half_widths_and_no_baselines() -> None:
    rows = list(csv.reader(io.StringIO(formats.to_csv(AWKWARD))))
    assert rows[0] == ["name", "L", "kid", "kid_half_width"]
    assert rows[1][1:] == ["3", "0.0421", "0.0173"]
    assert rows[2] == ["a | b\n<i>", "", "", ""]
    assert len(rows) == 3


def test_markdown_stays_on_its_lines() -> None:
    lines = formats.to_md(AWKWARD).splitlines()
    assert lines[1] == "| --- | ---: | ---: |"
    assert lines[3] == r"| **a \| b \<i>** | **–** | **–** |"
    assert lines[4] == r"| *no\_network* |  | 0.2 |"


def test_csv_spells_the_letters_of_the_paper() -> None:
    """So that a row about a knob joins with the column of that knob."""
    table = Table("t", "", [words("knob"), words("change")], [("χ", "σ = −0.5, κ = 1")])
    assert formats.to_csv(table) == 'knob,change\nchi,"sigma = -0.5, kappa = 1"\n'


HOSTILE = "[click](http://evil) ![x](http://evil/p.png) \x1b[2J \u202egnp [ref]: http://evil"


def test_markdown_has_neither_links_nor_images_nor_control_characters() -> None:
    table = Table("t", HOSTILE, [words("k", HOSTILE)], [(HOSTILE,)], [(HOSTILE,)])
    for text in (formats.md(HOSTILE), formats.to_md(table)):
        assert not re.search(r"(?<!\\)[\[\]]", text)
        assert "http:" not in text  # GitHub makes a link of an address by itself
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert r"\\x1b" in text


def test_addresses_are_no_links() -> None:
    assert formats.md("HTTPS://a.b, www.a.b") == r"HTTPS\://a.b, www\.a.b"
    assert formats.md("the http server: 2 wwws") == "the http server: 2 wwws"


def test_code_ends_only_at_its_own_fence() -> None:
    assert formats.code("ablate study x") == "`ablate study x`"
    assert formats.code("a` [b](c) ``d\n# e\x1b") == "``` a` [b](c) ``d # e\\x1b ```"


@pytest.mark.parametrize(
    ("words", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("@SUM(1)", "'@SUM(1)"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-1+1", "'-1+1"),
        ("−2+3", "'-2+3"),  # a minus sign, which becomes a hyphen
        ("＝1", "'＝1"),
        ("\t=1", "'\t=1"),
        ("-0.5", "-0.5"),
        ("+1e-05", "+1e-05"),
        ("a=1", "a=1"),
        ("\x1b]0;x", "\\x1b]0;x"),
    ],
)
def test_no_cell_of_a_csv_file_is_a_formula(words: str, cell: str) -> None:
    header = [Column("k", "k"), Column("=1+1", "=1+1"), numbers("n")]
    table = Table("t", "", header, [(words, None, -0.5)])
    head, row = csv.reader(io.StringIO(formats.to_csv(table)))
    assert head == ["k", "'=1+1", "n"]
    assert row == [cell, "", "-0.5"]


def test_readers_see_the_digits_of_a_column_and_programs_all() -> None:
    table = Table("t", "", [numbers("p", digits=2)], [(0.0035981,), (None,)])
    assert formats.to_md(table).splitlines()[2:] == ["| 0.0036 |", "| – |"]
    assert formats.to_csv(table) == "p\n0.0035981\n\n".replace("\n\n", '\n""\n')
