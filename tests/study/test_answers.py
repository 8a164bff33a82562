"""The contrast that a study file declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.core.asked import asked
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.study.find import find, names, read
from ablate.study.resolve import parse

FILE = """
question = "Which?"
answers = "{answers}"
bundle = "digits"
method = "random"
first = [{{ annealing = 0.001, init = "gaussian" }}]
confirm = {{ named = {{ theirs = 0 }} }}
[fixed]
sampler = "adls"
sigma = 0.8
r = 1.0
levels = 50
[search]
annealing = {{ low = 1e-4, high = 0.01 }}
init = ["gaussian", "class-gaussian"]
[budgets.quick]
samples = 64
trials = 4
"""


@pytest.mark.parametrize(
    "answers", ["", "init", "chi", "annealing by init", "best vs theirs", "kid vs recall over chi"]
)
def test_what_the_study_has_may_be_asked_about(answers: str) -> None:
    """chi follows from `annealing`, the coordinate that is searched."""
    study = parse(FILE.format(answers=answers), "s", "quick")
    assert study.answers == answers
    assert study.identity("b") == parse(FILE.format(answers=""), "s", "quick").identity("b")


@pytest.mark.parametrize(
    ("answers", "names"),
    [
        ("sigma", ["sigma is not varied", "init"]),
        ("best vs ours", ["'ours'", "'theirs'"]),
        ("steps", ["ladder"]),
        ("published", ["no published values"]),
        ("beauty per nfe", ["'beauty' is unknown", "kid"]),
        ("kid per recall", ["recall is no cost", "nfe"]),
        ("who knows", ["none of the forms", "KNOB vs KNOB"]),
    ],
)
def test_what_it_has_not_is_refused_in_one_line(answers: str, names: list[str]) -> None:
    with pytest.raises(UserError) as error:
        parse(FILE.format(answers=answers), "s", "quick")
    assert "\n" not in str(error.value)
    assert all(name in str(error.value) for name in ["answers", *names])


def test_every_shipped_study_declares_its_contrast(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for name in names(workspace):
        assert asked(read(find(workspace, name), "quick").answers), name
