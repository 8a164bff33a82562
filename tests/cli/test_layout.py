"""Tables and paragraphs at every width: nothing is cut off, nothing is wider than asked."""

from __future__ import annotations

import pytest

from ablate.cli.layout import table, wrapped

HEADER = ["study", "question", "state"]
ROWS = [
    ["fashion-adls", "Which start, noise, annealing and steps suit ADLS?", "quick: 3 of 24 trials"],
    ["digits-vegbm", "Does noise that grows in time serve digits better?", "not run"],
]


def words(lines: list[str]) -> list[str]:
    return sorted(word.strip(":") for line in lines for word in line.split())


@pytest.mark.parametrize("width", [25, 40, 60, 80, 120])
def test_every_word_is_there_and_no_line_is_too_long(width: int) -> None:
    lines = table(HEADER, ROWS, width)
    assert max(map(len, lines)) <= width
    shown = words(lines)
    for row in ROWS:
        for cell in row:
            assert all(word.strip(":") in shown for word in cell.split())


def test_a_row_is_one_line_in_a_pipe() -> None:
    lines = table(HEADER, ROWS, None)
    assert len(lines) == 2 + len(ROWS)
    assert all(cell in lines[2] for cell in ROWS[0])


def test_columns_stand_below_each_other() -> None:
    lines = table(HEADER, ROWS, None)
    place = lines[0].index("question")
    assert lines[2][place:].startswith("Which start")
    assert lines[3][place:].startswith("Does noise")


def test_a_narrow_terminal_gets_blocks() -> None:
    lines = table(HEADER, ROWS, 40)
    assert lines[0] == "fashion-adls"
    assert "  state: quick: 3 of 24 trials" in lines


def test_a_word_is_not_broken() -> None:
    """Names can be copied, even where they are wider than the terminal."""
    name = "a-name-that-is-longer-than-the-line"
    assert name in wrapped(f"see {name}", 20)


def test_control_characters_are_spelt_out() -> None:
    (line,) = table(["name"], [["evil\x1b[2J\u202etxt"]], None)[2:]
    assert line == r"evil\x1b[2J\u202etxt"
