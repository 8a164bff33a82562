"""A study run to its end: what MLflow then holds, and how it continues."""

from __future__ import annotations

import json
import math
from importlib.metadata import version
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.workspace import Workspace
from ablate.experiment.worker import Worker, open_search, run
from ablate.results import SUMMARY, Cell, Trial
from ablate.tracking.reader import Reader
from ablate.tracking.trials import merged
from ablate.tracking.writer import Tracker
from tests.support.commands import ablate
from tests.support.studies import (
    Quiet,
    changed,
    make_root,
    record_of,
    results,
    runs,
    setup_of,
    timeless,
)


@pytest.fixture(scope="module")
def finished(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose study `tiny` was run to its end by the real command, from nothing."""
    folder = tmp_path_factory.mktemp("finished") / "root"
    root = make_root(folder, tiny_bundle, databases=False)
    ablate(root, "study", "tiny")
    return root


def test_every_planned_trial_is_there_once(finished: Path) -> None:
    rows = results(finished)
    assert [row["number"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        assert row["state"] == "complete"
        assert set(row) >= {"number", "state", "params", "metrics", "nfe", "seconds", "reason"}
        assert row["nfe"] == 5
        assert {"fid", "kid", "clamp_rate", "flip_rate"} <= set(row["metrics"])
        assert row["params"]["r"] in (0.5, 0.75, 1.0)
        assert "delta" not in row["params"]  # a step of the paper's uniform grid, not of this one


def test_runs_are_nested_and_carry_what_they_should(finished: Path) -> None:
    by_id = {run.info.run_id: run for run in runs(finished)}
    kinds = [run.data.tags["ablate.kind"] for run in by_id.values()]
    assert (kinds.count("study"), kinds.count("trial"), kinds.count("cell")) == (1, 4, 8)
    client = MlflowClient(Workspace(finished).tracking_uri)
    for run_id, found in by_id.items():
        kind, tags = found.data.tags["ablate.kind"], found.data.tags
        assert found.info.status == "FINISHED"
        if kind == "study":
            expected = {"ablate.hash", "ablate.commit", "ablate.bundle", "ablate.device"}
            assert expected | {"version.torch", "version.optuna", "version.mlflow"} <= set(tags)
            assert found.data.params == {
                **{"sampler": "adls", "sigma": "0.8", "levels": "6"},
                **{"method": "grid", "bundle": "tiny", "samples": "40", "seeds": "2"},
            }
            continue
        parent = by_id[tags["mlflow.parentRunId"]].data.tags["ablate.kind"]
        assert parent == {"trial": "study", "cell": "trial"}[kind]
        assert len(tags["protocol.kid"]) == 8
        assert found.data.params["sampler"] == "adls"
        assert not [tag for tag in tags if tag.startswith("version.")]  # they are the study's
        if kind == "cell":
            files = {file.path for file in client.list_artifacts(run_id)}
            assert {"samples.png", "trajectory.png", "images.npz", "features.npz"} <= files


def test_a_trial_is_named_by_what_varies_and_its_objective_has_a_course(finished: Path) -> None:
    """The objective's step is the number of samples; what never varies has no interval."""
    trials = [run for run in runs(finished) if run.data.tags["ablate.kind"] == "trial"]
    names = {trial.info.run_name for trial in trials}
    assert "#0 class-average r.5" in names
    client = MlflowClient(Workspace(finished).tracking_uri)
    for trial, found in zip(record_of(Workspace(finished)).trials, trials[::-1], strict=True):
        assert found.info.run_id == trial.run_id
        course = client.get_metric_history(trial.run_id, "kid")
        assert [point.step for point in course] == [40, 80]
        assert [point.value for point in course] == [
            trial.cells[0].metrics["kid"],
            trial.metrics["kid"],
        ]
        assert found.data.metrics["kid"] == trial.metrics["kid"]
        widths = {k: v for k, v in found.data.metrics.items() if k.endswith(".interval")}
        assert "kid.interval" in widths
        assert 0 not in widths.values()
        assert "nfe.interval" not in widths


def test_a_run_has_its_inputs(finished: Path) -> None:
    """The bundle and the dataset: what the UI can filter by."""
    client = MlflowClient(Workspace(finished).tracking_uri)
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    (model,) = client.search_logged_models([experiment.experiment_id], "name = 'tiny'")
    assert (model.params["dataset"], model.status) == ("digits", "READY")
    found = client.search_runs([experiment.experiment_id], "dataset.name = 'digits/train'")
    kinds = [run.data.tags["ablate.kind"] for run in found]
    assert sorted(kinds) == ["study", *["trial"] * 4]
    for each in found:
        inputs = client.get_run(each.info.run_id).inputs  # a search leaves models out
        assert inputs is not None
        assert [used.model_id for used in inputs.model_inputs] == [model.model_id]


def test_a_study_sums_up(finished: Path) -> None:
    """A document, and a note with a link to the best trial."""
    record = record_of(Workspace(finished))
    summary = json.loads(Reader(Workspace(finished)).fetch(record.run_id, SUMMARY).read_text())
    best = record.ranked()[0]
    assert summary["trials"] == {"complete": 4}
    assert summary["best"]["trial"] == best.number
    assert summary["best"]["objectives"] == {"kid": best.metrics["kid"]}
    study = MlflowClient(Workspace(finished).tracking_uri).get_run(record.run_id)
    note = study.data.tags["mlflow.note.content"]
    assert note.startswith("Does it run?")
    assert note.endswith(f"(#/experiments/1/runs/{best.run_id})")


def test_versions_are_those_that_a_study_began_with(tiny_bundle: Path, tmp_path: Path) -> None:
    """A worker with other versions says so in the runs of its own trials."""
    root = make_root(tmp_path, tiny_bundle, trials=1)
    run(setup_of(root), Workspace(root), Quiet())
    (study,) = [found for found in runs(root) if found.data.tags["ablate.kind"] == "study"]
    client = MlflowClient(Workspace(root).tracking_uri)
    client.set_tag(study.info.run_id, "version.torch", "0.1")
    run(changed(root, ("trials = 1", "trials = 2")), Workspace(root), Quiet())
    assert client.get_run(study.info.run_id).data.tags["version.torch"] == "0.1"
    trials = {f.data.tags["ablate.trial"]: f for f in runs(root) if "ablate.trial" in f.data.tags}
    assert "version.torch" not in trials["0"].data.tags
    assert trials["1"].data.tags["version.torch"] == version("torch")


def test_a_trial_shows_its_samples(finished: Path) -> None:
    client = MlflowClient(Workspace(finished).tracking_uri)
    trials = [run for run in runs(finished) if run.data.tags["ablate.kind"] == "trial"]
    for trial in trials:
        names = [file.path for file in client.list_artifacts(trial.info.run_id)]
        assert "samples.png" in names
        assert min(name for name in names if name.endswith(".png")) == "first-samples.png"


def test_a_finished_study_does_nothing(finished: Path) -> None:
    before = len(runs(finished))
    assert "nothing to do" in ablate(finished, "study", "tiny").stdout
    assert len(runs(finished)) == before


def test_the_record_has_baselines_protocols_and_intervals(finished: Path) -> None:
    record = Reader(Workspace(finished)).latest("tiny", "quick")
    assert record is not None
    assert set(record.baselines) == {"held-out images", "class-gaussian without network"}
    assert record.protocols["kid"]["samples"] == 40
    assert record.protocols["kid"]["reference"] == "digits/train"
    assert record.planned == 4
    for trial in record.trials:
        values = [cell.metrics["kid"] for cell in trial.cells]
        assert trial.metrics["kid"] == sum(values) / 2
        errors = [cell.metrics["kid.error"] for cell in trial.cells]
        assert trial.intervals["kid"] == pytest.approx(1.959964 * math.hypot(*errors) / 2)
    assert Reader(Workspace(finished)).latest("tiny", "full") is None


def test_the_report_is_made_from_the_record(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    printed = ablate(finished, "report", "tiny").stdout.strip()
    assert list(tmp_path.glob("*")) == []  # what was fetched is not left behind
    page = Path(printed)
    assert page == finished / "reports" / "tiny" / "index.html"
    text = page.read_text()
    assert "Does it run?" in text
    assert "class Gaussians, no network" in text
    assert (page.parent / "tables" / "trials.csv").read_text().count("\n") == 5


def test_a_run_is_closed_in_one_transaction(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Tracker(Workspace(finished))
    run_id = tracker.open_evaluation("cut off", {})

    def cut_off(*_: object) -> None:
        raise OSError("cut off")

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "set_terminated", cut_off)
        with pytest.raises(MlflowException, match="cut off"):
            tracker.close(run_id, "complete", None, {"kid": 1.0}, {"chi": 0.5})
    found = tracker.client.get_run(run_id)
    assert (found.info.status, found.data.metrics, found.data.params) == ("RUNNING", {}, {})
    tracker.close(run_id, "complete", None, {"kid": 1.0}, {"chi": 0.5})
    found = tracker.client.get_run(run_id)
    assert (found.info.status, found.data.metrics) == ("FINISHED", {"kid": 1.0})
    assert found.data.params == {"chi": "0.5"}


def test_importance_is_in_the_record(whole: Path) -> None:
    """9 trials are enough for fANOVA, which needs two a knob and one more, not for PED-ANOVA."""
    record = record_of(Workspace(whole))
    study = next(run for run in runs(whole) if run.data.tags["ablate.kind"] == "study")
    assert {method.split()[0] for method in record.importance["kid"]} == {"fANOVA"}
    for method, shares in record.importance["kid"].items():
        assert set(shares) == ({"init and r"} if "pairs" in method else {"init", "r"})
        for knob, share in shares.items():
            assert study.data.metrics[f"importance/kid/{method}/{knob}"] == share


def test_more_trials_continue_it(finished: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    """4 trials continued to 6 are the same as 6 in one run."""
    setup = setup_of(make_root(tmp_path / "a", tiny_bundle, trials=6))
    run(setup, Workspace(tmp_path / "a"), Quiet())
    some = setup_of(make_root(tmp_path / "b", tiny_bundle, trials=4))
    run(some, Workspace(tmp_path / "b"), Quiet())
    assert some.key == setup.key
    watcher = Quiet()
    outcome = run(setup, Workspace(tmp_path / "b"), watcher)
    assert (outcome.already, outcome.ran) == (4, 2)
    assert [number for number, _ in watcher.states] == [4, 5]
    assert timeless(results(tmp_path / "a")) == timeless(results(tmp_path / "b"))


def test_progress_adds_up(tiny_bundle: Path, tmp_path: Path) -> None:
    watcher = Quiet()
    run(setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path), watcher)
    assert watcher.span == (0, 2)
    assert abs(watcher.share - 2) < 1e-9


def test_a_changed_study_is_another_study(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=2)
    first = setup_of(root)
    run(first, Workspace(root), Quiet())
    file = root / "studies" / "tiny.toml"
    file.write_text(file.read_text().replace("levels = 6", "levels = 7"))
    second = setup_of(root)
    assert second.key != first.key
    run(second, Workspace(root), Quiet())
    record = Reader(Workspace(root)).latest("tiny")
    assert record is not None
    assert record.hash == second.identity
    assert {trial.params["levels"] for trial in record.trials} == {7}


def test_the_latest_study_is_the_one_last_asked_for(tiny_bundle: Path, tmp_path: Path) -> None:
    """A file is changed and changed back: there is nothing to do, but the first study is the latest
    again."""
    root = make_root(tmp_path, tiny_bundle, trials=1)
    first = setup_of(root)
    run(first, Workspace(root), Quiet())
    run(changed(root, ("levels = 6", "levels = 7")), Workspace(root), Quiet())
    assert record_of(Workspace(root)).hash != first.identity
    run(changed(root, ("levels = 7", "levels = 6")), Workspace(root), Quiet())
    assert record_of(Workspace(root)).hash == first.identity


def test_limits_end_a_study_and_another_run_continues_it(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=4)
    setup = setup_of(root)
    each = 5 * 40 * 2  # evaluations, samples, seeds
    capped = setup._replace(study=setup.study.model_copy(update={"evaluations": each + 1}))
    outcome = run(capped, Workspace(root), Quiet())
    assert (outcome.ran, outcome.stopped) == (2, "800 of 401 network evaluations are spent")
    assert capped.key == setup.key
    soon = setup._replace(study=setup.study.model_copy(update={"minutes": 1e-9}))
    assert "minutes are over" in str(run(soon, Workspace(root), Quiet()).stopped)
    assert len(results(root)) == 2
    assert run(setup, Workspace(root), Quiet()).ran == 2
    assert [row["state"] for row in results(root)] == ["complete"] * 4


def test_of_two_workers_that_leave_at_a_limit_one_closes_the_study(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    """Both are present when the first checks whether it is the last."""
    root = make_root(tmp_path, tiny_bundle, trials=4)
    setup, workspace = setup_of(root), Workspace(root)
    capped = setup._replace(study=setup.study.model_copy(update={"evaluations": 1}))
    open_search(workspace)
    workers = [Worker(capped, workspace, Quiet()) for _ in range(2)]
    assert [worker.work().ran for worker in workers] == [1, 0]
    for worker in workers:
        worker.leases.close()
    study = next(run for run in runs(root) if run.data.tags["ablate.kind"] == "study")
    assert study.info.status == "FINISHED"
    assert "evaluations are spent" in study.data.tags["ablate.reason"]
    assert study.data.metrics["trials/complete"] == 1


def test_a_limit_counts_running_trials(tiny_bundle: Path, tmp_path: Path) -> None:
    """A running trial counts in full: the last trial within the limit is not started twice."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=4)), Workspace(tmp_path)
    each = 5 * 40 * 2  # evaluations, samples, seeds
    capped = setup._replace(study=setup.study.model_copy(update={"evaluations": each}))
    open_search(workspace)
    one, other = (Worker(capped, workspace, Quiet()) for _ in range(2))
    assert one.claims.claim(one.ledger.entries()) is not None
    assert other.claims.claim(other.ledger.entries()) is None
    for worker in (one, other):
        worker.leases.close()


def test_a_repeat_of_a_pruned_trial_is_not_merged_with_it() -> None:
    def trial(number: int, state: str) -> Trial:
        cell = Cell(f"r{number}", number, "complete", {"kid": float(number)})
        return Trial(
            f"t{number}", number, state, {"init": "a"}, dict(cell.metrics), {}, None, [cell]
        )

    pruned, complete, repeated = merged(
        [trial(0, "pruned"), trial(1, "complete"), trial(2, "complete")]
    )
    assert pruned.state == "pruned"
    assert complete.state == "complete"
    assert complete.metrics["kid"] == 1.5
    assert [cell.seed for cell in complete.cells] == [1, 2]
    assert (repeated.state, repeated.reason) == ("repeated", "more seeds of trial 1")
