"""Studies that train their networks: once each, resumed after a kill, linked in the record."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

from ablate.core.errors import UserError
from ablate.core.nested import half_width
from ablate.core.quantiles import student_975
from ablate.core.workspace import Workspace
from ablate.experiment import training_cost
from ablate.experiment.cost import make_plan, probe
from ablate.experiment.worker import run
from ablate.models.bundle import read_card
from ablate.report import answer
from ablate.report.one_at_a_time import one_at_a_time
from ablate.report.variance import components_table
from ablate.tracking.vocabulary import MODEL, TRAINING_RUN, TRAINING_SEED
from tests.support.commands import Command, ablate, until
from tests.support.studies import Quiet, record_of, results, runs, setup_of, timeless
from tests.support.trained_studies import files, trained_root, trainings


@pytest.fixture(scope="module")
def finished(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a study of two recipes and two training seeds that was never interrupted."""
    root = trained_root(tmp_path_factory.mktemp("trained") / "root", tiny_bundle)
    watcher = Quiet()
    run(setup_of(root), Workspace(root), watcher)
    assert watcher.steps.count(1) == 4  # the first step of each network was reported
    return root


def test_a_network_is_trained_once_for_each_recipe_and_training_seed(finished: Path) -> None:
    """Two recipes, two training seeds, two sampling seeds for each: four trainings, eight cells."""
    assert len(files(finished)) == len(trainings(finished)) == 4
    assert files(finished, ".pt") == []
    record = record_of(Workspace(finished))
    assert [trial.state for trial in record.trials] == ["complete"] * 2
    for trial in record.trials:
        assert trial.training_seeds == [5, 7, 5, 7]
    assert {run.info.status for run in trainings(finished)} == {"FINISHED"}
    seeds = sorted(run.data.params["seed"] for run in trainings(finished))
    assert seeds == ["5", "5", "7", "7"]


def test_cells_and_trials_name_their_network_and_its_training(finished: Path) -> None:
    by_id = {run.info.run_id: run for run in trainings(finished)}
    cards = [read_card(path) for path in (finished / "mlruns" / "trained").glob("*.safetensors")]
    hashes = {str(card.content)[:16]: card for card in cards}
    cells = [run for run in runs(finished) if run.data.tags["ablate.kind"] == "cell"]
    assert len(cells) == 8
    for cell in cells:
        training, card = by_id[cell.data.tags[TRAINING_RUN]], hashes[cell.data.tags[MODEL]]
        optimiser = cell.data.params["train.optimiser"]
        assert training.data.params["optimiser"] == card.recipe.optimiser == optimiser
        assert training.data.params["seed"] == cell.data.tags[TRAINING_SEED]
        trial = next(
            r for r in runs(finished) if r.info.run_id == cell.data.tags["mlflow.parentRunId"]
        )
        for tag in (MODEL, TRAINING_RUN):
            name = f"{tag}.{cell.data.tags[TRAINING_SEED]}"
            assert trial.data.tags[name] == cell.data.tags[tag]


def test_trials_say_what_their_own_network_is_told(tiny_bundle: Path, tmp_path: Path) -> None:
    """The bundle's network knows no classes, one of the trained ones does."""
    change = ('train.optimiser = ["muon", "adamw"]', "train.net.classes = [0, 10]")
    root = trained_root(tmp_path, tiny_bundle, change, ("seeds = [0, 1, 2, 3]", "seeds = [0]"))
    run(setup_of(root), Workspace(root), Quiet())
    told = {r.data.tags.get("ablate.told") for r in runs(root)} - {None}
    assert told == {"nothing: the network knows no classes", "its start's class, 0 to 9"}


def test_results_say_what_their_intervals_hold(finished: Path) -> None:
    assert record_of(Workspace(finished)).variation == "images, sampling and training"
    assert (
        "intervals: 95 %, of images, sampling and training"
        in ablate(finished, "results", "tiny").stdout
    )


def test_a_second_study_shares_the_networks(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sampler on the same recipes: nothing is trained, which would raise an error."""
    text = (finished / "studies" / "tiny.toml").read_text()
    (finished / "studies" / "other.toml").write_text(text.replace("levels = 4", "levels = 5"))
    monkeypatch.setattr("ablate.training.store.make_bundle", lambda *_, **__: 1 / 0)
    run(setup_of(finished, "other"), Workspace(finished), Quiet())
    record = record_of(Workspace(finished), "other")
    assert [trial.state for trial in record.trials] == ["complete"] * 2


def test_a_study_killed_in_mid_training_has_the_same_results(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    """It is killed after a checkpoint of the second network, which is then continued."""
    whole = trained_root(tmp_path / "whole", tiny_bundle, steps=300)
    run(setup_of(whole), Workspace(whole), Quiet())
    killed = trained_root(tmp_path / "killed", tiny_bundle, steps=300)
    process = Command(killed, "study", "tiny")
    until(lambda: len(files(killed)) == 1 and bool(unfinished(killed)), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (name,) = unfinished(killed)
    state = torch.load(killed / "mlruns" / "trained" / f"{name}.pt", weights_only=True)
    assert 0 < state["step"] < 300
    ablate(killed, "study", "tiny")
    assert timeless(results(killed)) == timeless(results(whole))
    assert files(killed) == files(whole)
    assert sorted(run.info.status for run in trainings(killed)) == ["FINISHED"] * 4
    assert hashes_of(killed) == hashes_of(whole)


def unfinished(root: Path) -> set[str]:
    """Networks that have a checkpoint and no bundle yet."""
    checkpoints, bundles = files(root, ".pt"), files(root)
    return {Path(name).stem for name in checkpoints} - {Path(name).stem for name in bundles}


def hashes_of(root: Path) -> list[str]:
    """The networks of the cells, by trial and seed."""
    cells = [run.data.tags for run in runs(root) if run.data.tags.get(MODEL)]
    cells = [tags for tags in cells if "ablate.seed" in tags]
    found = {(tags["ablate.trial"], tags["ablate.seed"]): tags[MODEL] for tags in cells}
    return [found[key] for key in sorted(found)]


@pytest.mark.long
def test_two_workers_train_each_network_once(tiny_bundle: Path, tmp_path: Path) -> None:
    """Four configurations of one recipe: both workers need the same networks at the same time."""
    changes = ('train.optimiser = ["muon", "adamw"]', "levels = [4, 5, 6, 7]"), ("levels = 4\n", "")
    root = trained_root(tmp_path, tiny_bundle, *changes, steps=200)
    ablate(root, "study", "tiny", "--workers", "2")
    assert len(files(root)) == len(trainings(root)) == 2
    assert [row["state"] for row in results(root)] == ["complete"] * 4


def test_averages_of_any_length_come_from_one_training(tiny_bundle: Path, tmp_path: Path) -> None:
    changes = 'train.optimiser = ["muon", "adamw"]', "train.ema_length = [0.05, 0.1, 0.2]"
    root = trained_root(tmp_path, tiny_bundle, changes, steps=40)
    run(setup_of(root), Workspace(root), Quiet())
    assert len(trainings(root)) == len(files(root, ".pt")) == 2
    assert len(files(root)) == 2 * 4  # three lengths, and the recipe's own average
    record = record_of(Workspace(root))
    assert [trial.params["train.ema_length"] for trial in record.trials] == [0.05, 0.1, 0.2]
    assert len({trial.metrics["kid"] for trial in record.trials}) == 3
    assert {run.data.params["snapshots"] for run in trainings(root)} == {"8"}


def test_a_plan_counts_trainings_that_are_left(tiny_bundle: Path, tmp_path: Path) -> None:
    setup = setup_of(trained_root(tmp_path, tiny_bundle))
    plan = make_plan(setup, probe(setup, 0.01))
    assert plan.networks == 4
    assert 0 < plan.training < plan.seconds
    run(setup, Workspace(tmp_path), Quiet())
    assert make_plan(setup, probe(setup, 0.01)).networks == 0


def test_a_plan_times_no_network_that_trains_by_the_clock(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four networks of half a minute: their time is known, and taking steps would cost it."""
    monkeypatch.setattr(training_cost, "seconds_of_a_step", None)
    change = (SEARCH, f"{SEARCH}\ntrain.minutes = [0.5]")
    setup = setup_of(trained_root(tmp_path, tiny_bundle, change))
    plan = make_plan(setup, probe(setup, 0.01))
    assert plan.training == pytest.approx(4 * (30 + training_cost.FINISHING))


LADDER = (
    ('method = "grid"', 'method = "ladder"\ncombinations = ["add-one"]'),
    (
        '[search]\ntrain.optimiser = ["muon", "adamw"]',
        '[base]\ntrain.optimiser = "muon"\n[[steps]]\nname = "AdamW"\ntrain.optimiser = "adamw"\n'
        '[[steps]]\nname = "fast"\ntrain.rate = 1e-2',
    ),
)


def test_alternatives_are_compared_with_the_base(tiny_bundle: Path, tmp_path: Path) -> None:
    """Each step alone, in pairs of the same training seed; the interval holds training."""
    root = trained_root(tmp_path, tiny_bundle, *LADDER)
    run(setup_of(root), Workspace(root), Quiet())
    record = record_of(Workspace(root))
    assert [row["name"] for row in record.ladder["cumulative"]] == ["base"]
    first, second = record.ladder["steps"]
    assert (first["trial"], second["trial"]) == (1, 2)
    base, adamw, _ = record.trials
    found = first["add_one"]["kid"]
    # effects come from the recorded features, which have half precision: 2^-11 of a value each
    rounding = 2**-9 * base.metrics["kid"]
    gap = adamw.metrics["kid"] - base.metrics["kid"]
    assert found["value"] == pytest.approx(gap, abs=rounding)
    gaps = [
        (cells[0].metrics["kid"] - cells[1].metrics["kid"], cells[0].training_seed)
        for cells in zip(adamw.cells, base.cells, strict=True)
    ]
    half = half_width([gap for gap, _ in gaps], [seed for _, seed in gaps], found["error"])
    assert half is not None
    assert found["high"] - found["value"] == pytest.approx(half, abs=student_975(1) * rounding)
    assert first["leave_one_out"] is first["interaction"] is None
    table = one_at_a_time(record, "kid")
    assert [row[0] for row in table.rows] == ["base", "+ AdamW", "+ fast"]
    assert table.rows[1][-1] == "train.optimiser = adamw"
    assert components_table(record, "kid").rows
    said = answer.answer(record)[0]
    assert said.startswith("KID ")
    assert all(f"{step['name']} (" in said for step in record.ladder["steps"])
    assert said.endswith(f"(95 %, of {record.variation}).")
    ablate(root, "report", "tiny")
    page = (root / "reports" / "tiny" / "index.html").read_text()
    for heading in ("What each step does", "Where the variance comes from"):
        assert heading in page


SEARCH = 'train.optimiser = ["muon", "adamw"]'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((SEARCH, "train.optimizer = [1, 2]"), "train.optimizer: no such knob; known: train.steps"),
        ((SEARCH, "train.rate = [0.1, -1]"), "train.rate: Input should be greater than 0"),
        ((SEARCH, "train.net.widths = [[8], [0]]"), "train.net.widths.0: Input should be greater"),
        ((SEARCH, "train.net.widths = [8, 16]"), "train.net.widths: Input should be a valid tuple"),
        ((SEARCH, 'train.objective = ["class-preconditioned"]'), "needs net.classes"),
        ((SEARCH, "train.net.patch = [1, 3]"), "net.patch = 3 does not divide"),
        (
            (SEARCH, "train.steps = { low = 5.0, high = 9.0, step = 0.5 }"),
            "search.train.steps: low and high must be whole numbers",
        ),
        ((SEARCH, "train.ema_length = [0.1, 0.5]"), "train.ema_length = 0.5: must be at most 0.28"),
        ((SEARCH, "train.minutes = [1, 0]"), "train.minutes = 0: must be a number above 0"),
        ((SEARCH, "train.seed = [0, 1]"), "train.seed: give training_seeds"),
        ((SEARCH, 'train.dataset = ["mnist"]'), "train.dataset: it is the bundle's"),
        ((SEARCH, "train.s_max = [0.5, 3.0]"), "trained for noise levels 0.002 to 0.5"),
        (('"small"', '"smaller"'), "training file 'smaller' is unknown"),
        (('"small"', '"mnist"'), "recipe = 'mnist' trains on mnist, bundle tiny is of digits"),
    ],
)
def test_what_cannot_be_trained_is_refused_at_once(
    change: tuple[str, str], message: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    root = trained_root(tmp_path, tiny_bundle, change)
    with pytest.raises(UserError) as error:
        setup_of(root)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (root / "mlruns" / "trained").exists()


def test_the_command_refuses_with_code_2(tiny_bundle: Path, tmp_path: Path) -> None:
    root = trained_root(tmp_path, tiny_bundle, (SEARCH, "train.speed = [1, 2]"))
    done = ablate(root, "study", "tiny", check=False)
    assert done.returncode == 2
    assert "train.speed: no such knob" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
