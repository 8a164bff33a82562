"""The grammar of `answers`."""

from __future__ import annotations

import pytest

from ablate.core.asked import FORMS, Asked, asked

LINES = {
    "schedule": Asked("knob", ("schedule",)),
    "train.objective": Asked("knob", ("train.objective",)),
    "sigma by init": Asked("by", ("sigma", "init")),
    "L vs r": Asked("knobs", ("L", "r")),
    "precision  vs recall over chi": Asked("metrics", ("chi",), ("precision", "recall")),
    "kid per nfe": Asked("cost", (), ("kid", "nfe")),
    "best vs the paper's setting": Asked("best", name="the paper's setting"),
    "steps": Asked("steps"),
    "published": Asked("published"),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read_as_one_form(line: str) -> None:
    assert asked(line) == LINES[line]


def test_every_form_is_tested() -> None:
    assert {each.kind for each in LINES.values()} == set(FORMS)


@pytest.mark.parametrize("line", ["", "is it chi?", "kid per", "a vs b vs c", "chi over"])
def test_other_lines_are_refused_with_the_forms(line: str) -> None:
    with pytest.raises(ValueError, match="METRIC per METRIC"):
        asked(line)
