"""Knobs of the training in study files: how they are written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.search import propose
from ablate.study.find import find, read
from ablate.study.resolve import parse
from ablate.study.train_knobs import check_balance, written_out

GOOD = """
question = "Which?"
bundle = "digits"
recipe = "digits"
training_seeds = [4, 5]
method = "grid"
seeds = [0, 1, 2, 3]
confirm = false
[fixed]
sampler = "pf-euler"
init = "gaussian"
sigma = 0.8
train.steps = 100
"train.net.blocks" = 1
[search]
train.net.widths = [[8], [16, 32]]
train.flips = [true, false]
train.net.dropout = { low = 0.0, high = 0.2, step = 0.1 }
[budgets.quick]
samples = 16
fixed = { train.steps = 200 }
"""


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_dotted_and_quoted_keys_are_the_same() -> None:
    study = parse(GOOD, "s", "quick")
    assert study.fixed["train.steps"] == 200  # by the budget
    assert study.fixed["train.net.blocks"] == 1
    assert study.search["train.net.widths"].choices == ("[8]", "[16, 32]")
    assert study.search["train.flips"].choices == ("true", "false")
    assert study.search["train.net.dropout"].spacing == 0.1
    assert study.trials == 2 * 2 * 3


def test_knobs_of_the_training_are_apart_from_the_samplers() -> None:
    study = parse(GOOD, "s", "quick")
    settings = study.settings(next(study.grid()))
    assert dict(settings.training) == {
        "train.steps": 200,
        "train.net.blocks": 1,
        "train.net.widths": "[8]",
        "train.flips": "true",
        "train.net.dropout": 0.0,
    }
    knobs = settings.knobs()
    assert knobs["train.steps"] == 200
    assert "training" not in knobs
    assert knobs["sigma"] == 0.8


RANGES = """train.rate = { low = 1e-4, high = 1e-2, log = true }
train.focus = { low = 0.0, high = 0.5 }
train.batch = { low = 16, high = 64 }
"""


@pytest.mark.parametrize("method", ["random", "tpe", "qmc", "law", "cmaes", "gp"])
def test_every_method_searches_them(method: str) -> None:
    """Proposals before any result: in the range, and whole where the ends are."""
    first = GOOD.index("train.net.widths = ")
    last = GOOD.index("[budgets")
    text = GOOD[:first] + RANGES + GOOD[last:].replace("samples = 16", "samples = 16\ntrials = 9")
    study = parse(text.replace('"grid"', f'"{method}"'), "s", "quick")
    for n in range(3):
        params = propose(study, n, []).params
        assert 1e-4 <= float(params["train.rate"]) <= 1e-2
        assert isinstance(params["train.batch"], int)
        assert dict(study.settings(params).training).keys() >= params.keys()


def test_rows_steps_and_conditions() -> None:
    tables = written_out(
        {
            "rows": [{"train": {"rate": 1e-3, "net": {"classes": 10}}}],
            "steps": [{"name": "a", "train": {"focus": 0.0}}],
            "search": {"train": {"rate": {"low": 1, "high": 2, "when": {"train.focus": 0.5}}}},
            "fixed": "not a table",
        }
    )
    assert tables["rows"] == [{"train.rate": 1e-3, "train.net.classes": 10}]
    assert tables["steps"] == [{"name": "a", "train.focus": 0.0}]
    assert list(tables["search"]) == ["train.rate"]
    assert tables["fixed"] == "not a table"
    assert written_out(tables) == tables


def test_a_file_that_extends_another_replaces_single_knobs(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "mine.toml").write_text(
        'extends = "digits-training"\n[base]\ntrain.focus = 0.4\n[fixed]\ntrain.batch = 64\n'
    )
    study = read(find(Workspace(tmp_path), "mine"), "quick")
    assert study.base["train.focus"] == 0.4
    assert study.base["train.optimiser"] == "muon"
    assert study.fixed["train.batch"] == 64


def test_sampling_seeds_are_nested_in_training_seeds() -> None:
    study = parse(GOOD, "s", "quick")
    assert [study.training_seed(seed) for seed in (0, 1, 2, 3, 100, 101)] == [4, 5, 4, 5, 4, 5]
    alone = parse(changed("training_seeds = [4, 5]\n", ""), "s", "quick")
    assert alone.training_seed(3) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed('recipe = "digits"\n', ""), "name the training recipe that it changes"),
        (changed("[4, 5]", "[4, 4]"), "training_seeds repeat: [4, 4]"),
        (changed("[4, 5]", "[4, -5]"), "training_seeds.1"),
        (
            changed("seeds = [0, 1, 2, 3]", "seeds = [0, 1, 2]"),
            "seed s has the (s mod 2)-th of the training_seeds [4, 5], which is 2 of 4, 1 of 5",
        ),
        (changed("samples = 16", "samples = 16\nrungs = [8]"), "pruned by their first network"),
        (changed("train.steps = 200", "sampler.x = 2"), "budgets.quick"),
    ],
)
def test_what_does_not_fit_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse(text, "s", "quick")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_some_training_seeds_may_be_left_to_larger_budgets() -> None:
    check_balance([0, 1], [7, 8, 9], "seeds")
    check_balance([0], [7, 8, 9], "seeds")
    check_balance([0, 1, 2], [], "seeds")
    with pytest.raises(UserError, match="2 of 7, 1 of 8, 1 of 9"):
        check_balance([0, 1, 2, 3], [7, 8, 9], "seeds")


IDENTITIES = {
    "digits-adls": "11a2b4c2d092",
    "cifar10-frontier": "42fd572c7db3",
    "fashion-vegbm": "f134c03d5f6f",
    "digits-ladder": "bba349a1c804",
}
"""Hashes of shipped studies before there were training seeds."""


@pytest.mark.parametrize("name", IDENTITIES)
def test_studies_without_training_keep_their_hash(name: str, tmp_path: Path) -> None:
    study = read(find(Workspace(tmp_path), name), "quick")
    assert study.identity("a") == IDENTITIES[name]


def test_training_seeds_and_recipes_are_part_of_the_hash() -> None:
    texts = [GOOD, changed("[4, 5]", "[4, 6]"), changed('recipe = "digits"', 'recipe = "other"')]
    assert len({parse(text, "s", "quick").identity() for text in texts}) == 3
