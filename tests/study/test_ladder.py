"""Ablation ladders: which configurations they have, and the one line for what makes none."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.search import propose
from ablate.study.definition import Step, Study
from ablate.study.families import Member
from ablate.study.file import BUDGETS
from ablate.study.find import find, read
from ablate.study.ladder import knobs_of, ladder, name_of, row_of
from ablate.study.resolve import parse
from ablate.study.toml_file import read_tables

GOOD = """
question = "What does each step buy?"
bundle = "digits"
method = "ladder"
seeds = [3, 5]
base = { sampler = "adls", init = "class-average", chi = 0.995, r = 0.6, n = 0 }
steps = [
  { name = "law step", r = "law" },
  { name = "noise-free", n = 2 },
  { name = "better start", init = "class-gaussian" },
]
[fixed]
sigma = 0.8
levels = 10
[budgets.smoke]
samples = 8
seeds = 1
[budgets.quick]
samples = 16
fixed = { levels = 20 }
"""

FLOW = '{ name = "flow", sampler = "pf-heun" }'


def swapped(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def with_flow() -> Study:
    """The ladder with a fourth step after which no annealing knob has a meaning."""
    return parse(swapped("]\n[fixed]", f"  {FLOW},\n]\n[fixed]"), "s", "quick")


def test_the_configurations_of_a_ladder() -> None:
    three = ladder(3)
    assert three.cumulative == [(), (0,), (0, 1), (0, 1, 2)]
    assert three.add_one == [(0,), (1,), (2,)]
    assert three.leave_one_out == [(1, 2), (0, 2), (0, 1)]
    assert three.distinct() == [(), (0,), (0, 1), (0, 1, 2), (1,), (2,), (1, 2), (0, 2)]


@pytest.mark.parametrize(("steps", "count"), [(1, 2), (2, 4), (3, 8), (4, 11), (5, 14)])
def test_what_coincides_is_run_once(steps: int, count: int) -> None:
    """n + 1 cumulative ones; the first step alone and the top without the last are among them, and
    of two steps, the second alone is the top without the first: 3 n - 1 from three steps on."""
    assert len(ladder(steps).distinct()) == count


def test_every_configuration_is_a_row() -> None:
    study = parse(GOOD, "s", "quick")
    assert study.trials == len(study.rows) == 8
    assert [propose(study, n, []).params for n in range(8)] == list(study.rows)
    base, law, clean, top, *others = study.rows
    assert base == {"sampler": "adls", "init": "class-average", "chi": 0.995, "r": 0.6, "n": 0}
    assert law == {**base, "r": "law"}
    assert clean == {**law, "n": 2}
    assert top == {**clean, "init": "class-gaussian"}
    assert others == [
        {**base, "n": 2},
        {**base, "init": "class-gaussian"},
        {**top, "r": 0.6},
        {**top, "n": 0},
    ]
    assert study.settings(top).levels == 20
    assert study.settings(top).sigma == 0.8


def test_steps_are_taken_in_order() -> None:
    first, second = Step(name="a", knobs={"n": 1, "L": 2}), Step(name="b", knobs={"n": 3})
    assert knobs_of({"r": 1.0, "n": 0}, [first, second], (0, 1)) == {"r": 1.0, "n": 3, "L": 2}


def test_names_of_configurations() -> None:
    steps = [Step(name=name, knobs={"n": 1}) for name in ("a", "b", "c")]
    names = [name_of(taken, steps) for taken in ((), (0, 1), (2,), (0, 2))]
    assert names == [
        "the base",
        "the base and the steps up to 'b'",
        "the base and step 'c' alone",
        "all steps but 'b'",
    ]


def test_a_step_that_a_later_one_replaces_adds_no_configuration() -> None:
    """pf-heun has no r and no n: the top without these steps is the top, and the top without the
    better start is the flow alone. So of 11 sets of steps 8 configurations are left."""
    study = with_flow()
    assert study.trials == len(study.rows) == 8
    top = {"sampler": "pf-heun", "init": "class-gaussian"}
    assert row_of(study, (0, 1, 2, 3)) == row_of(study, (1, 2, 3)) == top
    assert row_of(study, (0, 1, 3)) == row_of(study, (3,)) == {**top, "init": "class-average"}
    settled = [str(study.settings(row).knobs()) for row in study.rows]
    assert len(set(settled)) == 8


def test_fewer_trials_are_the_first_of_the_ladder() -> None:
    study = parse(swapped("samples = 16", "samples = 16\ntrials = 3"), "s", "quick")
    assert study.trials == 3
    assert [study.rows[n]["r"] for n in range(3)] == [0.6, "law", "law"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[fixed]\n", "[search]\nchi = [0.9, 1.0]\n[fixed]\n", ["search", "base and steps"]),
        ("seeds = [3, 5]", "rows = [{ n = 1 }]", ["rows", "base and steps"]),
        ("seeds = [3, 5]", "first = [{ n = 1 }]", ["first", "base and steps"]),
        ("samples = 16", "samples = 16\nrungs = [8]", ["budgets.quick.rungs", "all samples"]),
        ("samples = 16", "samples = 16\nsearch = { chi = [1.0] }", ["budgets.quick.search"]),
        ('"ladder"', '"grid"', ["base and steps make a ladder; method 'grid' has none"]),
        ('{ name = "noise-free", n = 2 }', '{ name = "law step", n = 2 }', ["steps.1", "law step"]),
        ('name = "noise-free", n = 2', "n = 2", ["steps.1.name"]),
        ('name = "noise-free", n = 2', 'name = "noise-free"', ["steps.1"]),
        ('name = "noise-free", n = 2', 'name = "noise-free", m = 2', ["steps.1.m", "no such knob"]),
        ('name = "noise-free", n = 2', 'name = "x", n = true', ["steps.1", "word or a number"]),
        ("chi = 0.995, r", "chy = 0.995, r", ["base.chy", "no such knob"]),
        ("sigma = 0.8", "sigma = 0.8\nchi = 1.0", ["chi is both fixed and in base"]),
        ("{ levels = 20 }", "{ chi = 1.0 }", ["chi is both fixed and in base"]),
        ("n = 2 }", "n = 0 }", ["step 'noise-free' changes nothing", "up to 'law step'"]),
        ("n = 2 }", "n = -1 }", ["up to 'noise-free'", "n:", "-1"]),
        ("chi = 0.995, r", "chi = 1.5, r", ["the base", "chi", "1.5"]),
        (
            '"law step", r = "law"',
            '"flow", sampler = "pf-heun", s_min = 0.9',
            ["up to 'flow'", "s_min"],
        ),
        ('"law step", r = "law"', '"flow", sampler = "pf-heun", chi = 1.0', ["step 'flow'", "chi"]),
        ("chi = 0.995, r", "memory = 2, chi = 0.995, r", ["base", "memory = 2", "no config"]),
    ],
)
def test_a_mistake_is_one_line(old: str, new: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        parse(swapped(old, new), "s", "quick", "studies/s.toml")
    line = str(caught.value)
    assert line.startswith("studies/s.toml: ")
    assert "\n" not in line
    for word in words:
        assert word in line


@pytest.mark.parametrize("key", ["base", "steps"])
def test_a_ladder_needs_both(key: str) -> None:
    start = GOOD.index(f"{key} = ")
    end = GOOD.index("[fixed]") if key == "steps" else GOOD.index("steps = ")
    with pytest.raises(UserError, match=f"{key} is empty"):
        parse(GOOD[:start] + GOOD[end:], "s", "quick")


def test_a_step_that_is_valid_only_after_others_is_named() -> None:
    """On 1,000 levels delta is a step; with r as well it contradicts, and the base has r."""
    text = swapped('r = "law"', "delta = 0.0006")
    with pytest.raises(UserError, match=r"up to 'law step': r = 0\.6 and delta = 0\.0006"):
        parse(text, "s", "quick")


def test_identity_is_of_base_and_steps_too() -> None:
    identity = parse(GOOD, "s", "quick").identity("b")
    for old, new in [("r = 0.6", "r = 0.7"), ("n = 2", "n = 3"), ("law step", "first step")]:
        assert parse(swapped(old, new), "s", "quick").identity("b") != identity


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dataset", ["mnist", "kmnist", "fashion", "cifar10", "digits"])
def test_families_climb_from_the_papers_setting_to_a_few_evaluations(
    dataset: str, budget: str
) -> None:
    study = read(find(Workspace(Path()), f"{dataset}-ladder"), budget)
    rungs = [study.settings(row_of(study, taken)) for taken in ladder(5).cumulative]
    paper = read_tables(Path("studies/families/datasets.toml"))[dataset]["tuned"]["adls"][0]
    assert {knob: rungs[0].knobs()[knob] for knob in paper} == paper
    assert rungs[-1].nfe <= 10
    assert all(a.knobs() != b.knobs() for a, b in pairwise(rungs))
    walked = rungs[0].kind.nfe(1000, rungs[0].L or 1, rungs[0].n or 0)
    assert rungs[0].nfe == {"smoke": 12, "quick": 20, "full": walked}[budget]
    integrators = {each.integrator for each in rungs[:-1]}
    assert integrators == {"literal" if budget == "full" else "exponential"}


def test_an_item_of_a_list_fills_a_template() -> None:
    member = Member("f", Path("f.toml"), {"a": {"b": [{"k": 1}, {"k": 2}]}})
    assert member.fill({"base": "$a.b.1"}) == {"base": {"k": 2}}
    for wrong in ("$a.b.2", "$a.b.k"):
        with pytest.raises(UserError, match="no such value"):
            member.fill({"base": wrong})


def test_kinds_of_configurations_can_be_left_out() -> None:
    alone = ladder(3, ("add-one",))
    assert alone.distinct() == [(), (0,), (1,), (2,)]
    assert alone.effect_of(1) == ((1,), ())
    without = ladder(3, ("leave-one-out",))
    assert without.distinct() == [(), (0, 1, 2), (1, 2), (0, 2), (0, 1)]
    assert without.effect_of(1) == ((0, 1, 2), (0, 2))
    assert ladder(3).effect_of(1) == ((0, 1), (0,))
    assert ladder(3, ("cumulative",)).distinct() == ladder(3).cumulative
