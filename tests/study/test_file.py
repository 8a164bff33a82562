"""Study files: what is accepted, and the one line for everything that is not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.generate.plans import make_plan
from ablate.generate.settings import Settings
from ablate.metrics.registry import Direction, objectives
from ablate.models.bundle import shipped
from ablate.results import Objective
from ablate.search import propose
from ablate.study import find as studies
from ablate.study.definition import Study
from ablate.study.domain import Domain
from ablate.study.families import Member
from ablate.study.file import BUDGETS
from ablate.study.find import find, read
from ablate.study.resolve import parse

HERE = Workspace(Path())

GOOD = """
question = "Which?"
bundle = "digits"
method = "grid"
seeds = [3, 5]
[fixed]
sampler = "adls"
sigma = 0.8
levels = 10
init = "gaussian"
[search]
chi = [0.995, 1.0]
r = { low = 0.5, high = 1.0, step = 0.25 }
[budgets.smoke]
samples = 8
seeds = 1
[budgets.quick]
samples = 16
trials = 4
fixed = { levels = 20 }
"""


def swapped(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_file_is_resolved() -> None:
    study = parse(GOOD, "s", "quick")
    assert study.seeds == (3, 5)
    assert study.trials == 4
    assert study.fixed["levels"] == 20
    assert [o.metric for o in study.objectives] == ["kid"]
    assert parse(GOOD, "s", "smoke").seeds == (3,)


def test_a_grid_without_trials_is_the_whole_grid_in_order() -> None:
    study = parse(GOOD, "s", "smoke")
    assert study.trials == 6
    assert list(study.grid()) == [
        {"chi": chi, "r": r} for chi in (0.995, 1.0) for r in (0.5, 0.75, 1.0)
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("question = ", ["not TOML"]),
        (swapped('method = "grid"', 'method = "magic"'), ["method", "'magic'"]),
        (swapped('method = "grid"', 'colour = "red"'), ["colour", "'red'"]),
        (swapped('question = "Which?"', ""), ["question", "required"]),
        (swapped('question = "Which?"', 'question = ""'), ["question"]),
        (swapped("chi = [0.995, 1.0]", "chi = []"), ["search.chi", "choices is empty"]),
        (swapped("chi = [0.995, 1.0]", "chi = [1.0, 1.0]"), ["search.chi", "repeat"]),
        (swapped("chi = [0.995, 1.0]", "chi = [0.995, 1.5]"), ["chi", "1.5"]),
        (swapped("chi = [0.995, 1.0]", 'chi = ["a", 1.0]'), ["chi", "'a'"]),
        (swapped("chi = [0.995, 1.0]", "chy = [0.995]"), ["search.chy", "no such knob"]),
        (swapped("low = 0.5, high = 1.0", "low = 1.0, high = 0.5"), ["search.r", "empty range"]),
        (swapped("low = 0.5, high = 1.0", "low = 0.5"), ["search.r", "both low and high"]),
        (swapped("low = 0.5, high = 1.0", "low = nan, high = 1.0"), ["search.r", "finite"]),
        (swapped("step = 0.25", "step = 0.25, log = true"), ["search.r", "log", "step"]),
        (swapped("step = 0.25", "step = -1.0"), ["search.r", "step = -1.0"]),
        (swapped("step = 0.25 ", "log = true "), ["search.r", "grid"]),
        (swapped("sigma = 0.8", ""), ["sigma is missing"]),
        (swapped("sigma = 0.8", "sigma = -1"), ["sigma", "-1"]),
        (swapped("sigma = 0.8", "sigma = 0.8\nsigma_min = 0.1"), ["sigma_min", "no configuration"]),
        (swapped("sigma = 0.8", "sigma = 0.8\ndelta = 0.1"), ["r = 0.5 and delta = 0.1", "one"]),
        (swapped("sigma = 0.8", "sigma = 0.8\nchi = 1.0"), ["chi is both fixed and searched"]),
        (swapped("sigma = 0.8", "sigma = 0.8\ns_min = 0.9"), ["0.9", "not below"]),
        (swapped("sigma = 0.8", "sigma = 0.8\ncap = 0.01"), ["cap = 0.01", "66 levels would"]),
        (swapped("levels = 20", "levels = 1"), ["levels", "1"]),
        (swapped('sampler = "adls"', 'sampler = "pf-heun"'), ["chi", "no configuration"]),
        (swapped('sampler = "adls"', 'sampler = "nuts"'), ["sampler 'nuts' is unknown"]),
        (swapped('init = "gaussian"', 'init = "zeros"'), ["init 'zeros' is unknown"]),
        (swapped('init = "gaussian"', ""), ["init", "required"]),
        (swapped("seeds = [3, 5]", "seeds = [3, 3]"), ["seeds", "[3, 3]"]),
        (swapped("seeds = [3, 5]", "seeds = []"), ["seeds"]),
        (swapped("samples = 16", "samples = 1"), ["budgets.quick.samples", "1"]),
        (swapped("fixed = { levels = 20 }", "fixed = { chi = 1.0 }"), ["budgets.quick.fixed.chi"]),
        (swapped("[budgets.smoke]", "[budgets.tiny]"), ["tiny"]),
        (swapped("seeds = [3, 5]", 'objectives = [{ metric = "beauty" }]'), ["metric", "'beauty'"]),
        (swapped("seeds = [3, 5]", "objectives = []"), ["objectives is empty"]),
        (swapped("seeds = [3, 5]", f"seeds = [{2**32}]"), ["seeds", str(2**32)]),
        (swapped("chi = [0.995, 1.0]", "L = { low = 1.0, high = 3.0 }"), ["L", "whole numbers"]),
        (swapped("chi = [0.995, 1.0]", "chi = [true, 0.9]"), ["chi"]),
        (
            swapped("step = 0.25", "step = 0.25, when = { chi = 1.0 }").replace(
                "chi = [0.995, 1.0]", "chi = { choices = [1.0], when = { r = 0.5 } }"
            ),
            ["circle"],
        ),
        (
            swapped('method = "grid"', 'method = "cmaes"').replace(
                "seeds = [3, 5]", 'objectives = [{ metric = "kid" }, { metric = "fid" }]'
            ),
            ["'cmaes' takes one objective, not 2"],
        ),
        (
            swapped("chi = [0.995, 1.0]", 'chi = { choices = [1.0], when = { moon = "full" } }'),
            ["search.chi.when.moon"],
        ),
    ],
)
def test_a_mistake_is_one_line(text: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "s", "quick", "studies/s.toml")
    line = str(caught.value)
    assert line.startswith("studies/s.toml: ")
    assert "\n" not in line
    for word in words:
        assert word in line


def test_missing_budget_trials_and_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"budgets\.full is not there; the study has smoke, quick"):
        parse(GOOD, "s", "full")
    with pytest.raises(UserError, match=r"budgets\.smoke\.trials is missing"):
        parse(swapped('"grid"', '"tpe"'), "s", "smoke")
    with pytest.raises(UserError, match="no such file"):
        find(HERE, str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b"question = '\xff'")
    with pytest.raises(UserError, match="cannot be read"):
        find(HERE, str(tmp_path / "latin.toml"))


CONDITIONAL = """
question = "Which?"
bundle = "digits"
method = "grid"
[fixed]
init = "gaussian"
levels = 10
n = 2
[search]
chi = [0.9, 1.0]
sampler = ["adls", "pf-heun", "asams"]
schedule = ["constant", "ve"]
sigma = [0.5, 0.8]
sigma_min = { choices = [0.1], when = { schedule = "ve" } }
sigma_max = [1.0, 2.0]
L = { low = 1, high = 2, when = { sampler = "asams" } }
[budgets.quick]
samples = 8
"""


def test_knobs_apply_only_where_they_mean_something() -> None:
    study = parse(CONDITIONAL, "s", "quick")
    points = list(study.grid())
    # sampler × chi × L: adls 2, pf-heun 1, asams 2 · 2; schedule: 2 sigmas or 1 · 2 pairs
    assert len(points) == study.trials == (2 + 1 + 4) * (2 + 2)
    assert len({tuple(sorted(p.items())) for p in points}) == len(points)
    for params in points:
        settings = study.settings(params)
        assert (settings.chi is None) == (settings.sampler == "pf-heun")
        assert (settings.n is None) == (settings.sampler == "pf-heun")
        assert (settings.sigma is None) == (settings.schedule == "ve")
        assert ("L" in params) == (settings.sampler == "asams")


def test_a_value_beyond_the_corners_that_can_be_checked_is_checked_too() -> None:
    """Eight knobs of two ends each and three starts are 768 corners a sampler; the wrong one is
    the last of four."""
    ranges = "\n".join(
        f"{knob} = {{ low = {low}, high = {high} }}"
        for knob, low, high in (
            *(
                ("chi", 0.99, 1.0),
                ("r", 0.5, 1.0),
                ("L", 1, 6),
                ("n", 0, 25),
                ("s_min", 0.01, 0.02),
            ),
            *(("sigma", 0.4, 0.8), ("levels", 20, 60), ("cap", 0.5, 0.9)),
        )
    )
    inits = '["class-average", "lognormal", "gaussian"]'
    text = f"""question = "?"
bundle = "digits"
method = "random"
[search]
sampler = ["adls", "asams", "asams-consistent", "dals"]
init = {inits}
grid = ["geometric"]
{ranges}
[budgets.quick]
trials = 5
samples = 64
"""
    with pytest.raises(UserError, match="sampler 'dals' is unknown"):
        parse(text, "s", "quick")
    assert parse(text.replace(', "dals"', ""), "s", "quick").trials == 5


def test_conditions_may_be_written_in_any_order() -> None:
    text = GOOD.replace('sampler = "adls"\n', "").replace(
        "r = {", 'n = { choices = [1], when = { chi = 1.0 } }\nsampler = ["pf-heun", "adls"]\nr = {'
    )
    points = [str(point) for point in parse(text, "s", "smoke").grid()]
    # pf-heun once; adls with r in three values and chi in two, n = 1 going with chi = 1
    assert len(points) == len(set(points)) == 1 + 2 * 3


def test_identity_is_of_what_decides_results() -> None:
    study = parse(GOOD, "s", "smoke")
    same = parse(swapped('"Which?"', '"What?"'), "s", "smoke").model_copy(update={"trials": 99})
    assert same.identity("b") == study.identity("b")
    assert study.identity("c") != study.identity("b")
    for old, new in [("0.995", "0.99"), ("samples = 8", "samples = 9"), ("[3, 5]", "[4, 5]")]:
        assert parse(swapped(old, new), "s", "smoke").identity("b") != study.identity("b")


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (Domain(choices=("a", "b")), ("a", "b")),
        (Domain(low=1, high=3), (1, 2, 3)),
        (Domain(low=1, high=6, step=2), (1, 3, 5)),
        (Domain(low=0.1, high=0.3, step=0.1), (0.1, 0.2, 0.3)),
        (Domain(low=0.0, high=1.0), None),
        (Domain(low=1, high=10**9), None),
    ],
)
def test_values_of_a_domain(domain: Domain, values: tuple[object, ...] | None) -> None:
    assert domain.values() == values


@pytest.mark.parametrize("name", objectives())
def test_an_objective_knows_which_way_is_better(name: str) -> None:
    """Quality goes up, distances and costs go down; a file that says otherwise is wrong."""
    quality = name in ("precision", "recall", "density", "coverage")
    better: Direction = "maximize" if quality else "minimize"
    worse = "minimize" if quality else "maximize"
    text = GOOD.replace("[fixed]", f'[[objectives]]\nmetric = "{name}"\n[fixed]', 1)
    assert parse(text, "s", "quick").objectives == (Objective(name, better),)
    said = text.replace(f'"{name}"\n', f'"{name}"\ndirection = "{better}"\n', 1)
    assert parse(said, "s", "quick").objectives == (Objective(name, better),)
    wrong = text.replace(f'"{name}"\n', f'"{name}"\ndirection = "{worse}"\n', 1)
    with pytest.raises(UserError, match=f"direction = '{worse}', but {name} is to {better}"):
        parse(wrong, "s", "quick")


def test_steps_are_spelt_both_ways() -> None:
    on = {"sampler": "adls", "init": "gaussian", "sigma": 0.8, "L": 3, "levels": 50}
    on["grid"] = "uniform"
    by_r, by_delta = (Settings.model_validate(on | step) for step in ({"r": 0.6}, {"delta": 0.004}))
    assert math.isclose(float(by_r.knobs()["delta"]), 0.004)
    assert math.isclose(float(by_delta.knobs()["r"]), 0.6)
    assert by_r.nfe == 3 * 49
    assert "delta" not in Settings(sampler="pf-euler", init="gaussian", sigma=0.8).knobs()


def test_defaults_are_the_plain_sampler() -> None:
    bare = Settings(sampler="adls", init="gaussian", sigma=0.8, levels=7)
    plain = Settings(sampler="dale-langevin", init="gaussian", sigma=0.8, levels=7)
    assert make_plan(bare) == make_plan(plain)


@pytest.mark.parametrize("name", studies.names(HERE))
def test_shipped_studies_are_valid(name: str) -> None:
    for budget in BUDGETS:
        study = read(find(HERE, name), budget)
        assert study.bundle in shipped() or (budget == "full" and "paper-" in study.bundle)
        if budget == "quick":
            few = name.endswith(("-paper", "-ladder")) or study.recipe
            assert study.trials >= (4 if few else 12)
            assert len(study.seeds) >= 3
            assert study.samples >= 256


def test_every_dataset_has_every_family() -> None:
    families = (
        "adls",
        "asams",
        "annealing",
        "sigma",
        "init",
        "vegbm",
        "steps",
        "paper",
        "frontier",
        "ladder",
        "guidance",
    )
    datasets = ("mnist", "kmnist", "fashion", "cifar10")
    expected = {f"{dataset}-{family}" for dataset in datasets for family in families}
    expected |= {f"digits-{family}" for family in families if family not in ("paper", "guidance")}
    # files of their own: their bundles and budgets are those of one dataset
    expected |= {"digits-training", "digits-ema", "cifar10-training"}
    assert set(studies.names(HERE)) == expected


PAPER = {  # Tables 3 and 4: (L, delta, chi) with class-average starts
    ("adls", "mnist"): (1, 6.06e-4, 0.995),
    ("adls", "kmnist"): (3, 2.11e-4, 0.995),
    ("adls", "fashion"): (1, 5.86e-4, 0.995),
    ("adls", "cifar10"): (6, 1.14e-4, 0.9995),
    ("asams", "mnist"): (4, 1.43e-4, 0.995),
    ("asams", "kmnist"): (2, 3.30e-4, 0.995),
    ("asams", "fashion"): (3, 2.50e-4, 0.9995),
    ("asams", "cifar10"): (5, 1.43e-4, 0.9995),
}


@pytest.mark.parametrize(("sampler", "dataset"), PAPER)
def test_searches_begin_with_the_papers_own_answer(sampler: str, dataset: str) -> None:
    study = read(find(HERE, f"{dataset}-{sampler}"), "full")
    assert study.confirm.named == {"the paper's setting": 0}
    (row,), (steps, delta, chi) = study.first, PAPER[sampler, dataset]
    settings = study.settings(row)
    assert (settings.init, settings.sigma) == ("class-average", 0.8)
    assert steps == settings.L
    assert settings.chi == pytest.approx(chi, abs=1e-12)
    assert abs(float(settings.knobs()["delta"]) - delta) < 1e-12
    assert propose(study, 0, []).params == row


def test_the_papers_table_stands_beside_its_rows() -> None:
    study = read(find(HERE, "cifar10-paper"), "quick")
    assert len(study.published) == study.trials == 8
    for mark in study.published:
        alike = [row for row in study.grid() if mark.knobs.items() <= row.items()]
        assert len(alike) == 1


def test_a_file_is_laid_over_what_it_extends(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "base.toml").write_text(GOOD)
    path = tmp_path / "mine.toml"

    def mine() -> Study:
        return read(find(workspace, str(path)), "quick")

    path.write_text("""
extends = "base.toml"
question = "Mine?"
[fixed]
sigma = 0.5
[search]
r = { low = 0.25, high = 0.75, step = 0.25 }
chi = [1.0]
[budgets.quick]
samples = 99
""")
    study, base = mine(), parse(GOOD, "s", "quick")
    assert (study.question, study.samples, study.fixed["sigma"]) == ("Mine?", 99, 0.5)
    assert study.fixed["levels"] == base.fixed["levels"]
    assert study.search["chi"].choices == (1.0,)
    assert study.search["r"].values() == (0.25, 0.5, 0.75)
    path.write_text("extends = 3")
    with pytest.raises(UserError, match=r"extends: must be a study or a file's name \(value 3\)"):
        mine()
    path.write_text('extends = "base.toml"\n[search]\nsigma = [0.5, 0.8]\nr = [1.0]')
    assert "sigma" not in mine().fixed
    path.write_text('extends = "none.toml"')
    with pytest.raises(UserError, match=r"none\.toml: cannot be read"):
        mine()
    path.write_text('extends = "mine.toml"')
    with pytest.raises(UserError, match=r"mine\.toml: extends itself"):
        mine()
    path.write_text('extends = "digits-sigma"\n[search]\nsigma = [0.5, 0.8]')
    assert mine().search["sigma"].choices == (0.5, 0.8)


def test_own_studies_come_before_shipped_ones(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert find(workspace, "digits-adls").family == "adls"
    own = tmp_path / "studies" / "digits-adls.toml"
    own.parent.mkdir()
    own.write_text(GOOD)
    assert find(workspace, "digits-adls") == find(workspace, str(own))
    assert find(workspace, "digits-adls").question == "Which?"
    own.write_text('extends = "digits-adls"\nquestion = "Mine?"')
    assert find(workspace, "digits-adls").question == "Mine?"
    assert read(find(workspace, "digits-adls"), "quick").bundle == "digits"
    with pytest.raises(UserError, match=r"study 'digits' is unknown; known: .*digits-adls"):
        find(workspace, "digits")
    with pytest.raises(UserError, match=r"none\.toml: no such file"):
        find(workspace, "none.toml")


def test_own_families_and_datasets_are_multiplied(tmp_path: Path) -> None:
    folder = tmp_path / "studies" / "families"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(swapped('"Which?"', '"Which on $title?"'))
    assert find(Workspace(tmp_path), "mnist-mine").question == "Which on MNIST?"
    (folder / "mine.toml").write_text(swapped('"Which?"', '"$none"'))
    with pytest.raises(UserError, match=r"\$none: datasets\.toml has no such value"):
        find(Workspace(tmp_path), "mnist-mine")
    (folder / "datasets.toml").write_text("[one]\ntitle = 'One'\n")
    (folder / "mine.toml").write_text(swapped('"Which?"', '"$title?"'))
    assert find(Workspace(tmp_path), "one-mine").question == "One?"
    (folder / "datasets.toml").write_text("one = 1")
    with pytest.raises(UserError, match=r"one: must be a table \(value 1\)"):
        find(Workspace(tmp_path), "one-mine")


def test_templates_are_filled() -> None:
    facts = {"a": {"b": [1, 2]}, "word": "x", "table": {"k": 1}}
    member = Member("f", Path("f.toml"), facts)
    template = {"one": "$a.b", "two": ["$a.b", 3], "three": "say $word.", "four": {"k": "$table"}}
    filled = {"one": [1, 2], "two": [1, 2, 3], "three": "say x.", "four": {"k": {"k": 1}}}
    assert member.fill(template) == filled


ROWS = """rows = [{ init = "gaussian", r = 0.5 }, { init = "lognormal", r = 1.0 }]"""


def test_rows_vary_together() -> None:
    text = swapped('init = "gaussian"\n', "").replace('method = "grid"', f'method = "grid"\n{ROWS}')
    text = text.replace("r = { low = 0.5, high = 1.0, step = 0.25 }\n", "")
    study = parse(text, "s", "smoke")
    assert list(study.grid()) == [
        {"init": init, "r": r, "chi": chi}
        for init, r in (("gaussian", 0.5), ("lognormal", 1.0))
        for chi in (0.995, 1.0)
    ]
    assert study.settings(next(study.grid())).relative_step == 0.5
    assert study.values("init") == ("gaussian", "lognormal")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "seeds = [3, 5]",
            "first = [{ chi = 0.99, r = 0.5 }]",
            r"first\.0\.chi = 0\.99 is not within",
        ),
        ("seeds = [3, 5]", "first = [{ chi = 1.0, r = 0.6 }]", r"first\.0\.r = 0\.6 is not within"),
        ("seeds = [3, 5]", "first = [{ chi = 1.0 }]", r"first\.0: r is missing"),
        (
            "seeds = [3, 5]",
            "first = [{ chi = 1.0, r = 0.5, sigma = 3 }]",
            r"neither searched nor fixed",
        ),
        ("seeds = [3, 5]", "rows = [{ beta = 1 }]", r"rows\.0\.beta: no such knob"),
        ('"grid"', '"tpe"\nrows = [{ n = 1 }]', "rows are an axis of a grid"),
        ("trials = 4", "trials = 4\nrungs = [16]", r"rungs \[16\] must rise towards samples = 16"),
        ("trials = 4", "trials = 4\nminutes = 0", r"budgets\.quick\.minutes"),
        ("[fixed]", "[constraints]\nbeauty = 1\n[fixed]", r"constraints\.beauty"),
        (
            "samples = 16",
            'samples = 16\nrungs = [8]\n[[objectives]]\nmetric = "seconds"\n'
            "[budgets.full]\nsamples = 9",
            r"budgets\.quick\.rungs: trials are pruned by one of kid",
        ),
    ],
)
def test_what_is_wrong_with_rows_rungs_and_firsts(old: str, new: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse(swapped(old, new), "s", "quick")


@pytest.mark.parametrize("method", ["gp", "cmaes"])
def test_methods_that_learn_nothing_from_pruned_trials_take_no_rungs(method: str) -> None:
    text = swapped('method = "grid"', f'method = "{method}"')
    text = text.replace("[budgets.quick]", "[budgets.quick]\nrungs = [2]")
    with pytest.raises(UserError, match=f"method '{method}' learns nothing from pruned trials"):
        parse(text, "s", "quick")
