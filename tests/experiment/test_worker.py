"""Studies end to end: run, continued, killed, diverged, failed; and what MLflow then holds."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.errors import PassingError
from ablate.core.workspace import Workspace
from ablate.experiment import trial as runner
from ablate.experiment.cell import run_cell
from ablate.experiment.leases import Leases
from ablate.experiment.prepare import Setup
from ablate.experiment.worker import Worker, open_search, run
from ablate.results import Cell, Trial
from ablate.search import propose
from ablate.tracking import Reader, Tracker
from ablate.tracking.reader import _merged
from tests.support.studies import (
    Quiet,
    ablate,
    command,
    environment,
    make_root,
    results,
    setup_of,
    timeless,
)


def runs(root: Path) -> list[object]:
    client = MlflowClient(Workspace(root).tracking_uri)
    experiment = client.get_experiment_by_name("tiny")
    return list(client.search_runs([experiment.experiment_id], max_results=1000))


@pytest.fixture(scope="module")
def finished(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose study `tiny` was run to its end by the real command."""
    root = make_root(tmp_path_factory.mktemp("finished") / "root", tiny_bundle)
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
        assert row["params"]["r"] == 5 * row["params"]["delta"] * 6 / 5


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
            continue
        parent = by_id[tags["mlflow.parentRunId"]].data.tags["ablate.kind"]
        assert parent == {"trial": "study", "cell": "trial"}[kind]
        assert len(tags["protocol.kid"]) == 8
        assert found.data.params["sampler"] == "adls"
        if kind == "cell":
            files = {file.path for file in client.list_artifacts(run_id)}
            assert {"samples.png", "trajectory.png", "images.npz", "features.npz"} <= files


def test_a_trial_shows_its_samples(finished: Path) -> None:
    client = MlflowClient(Workspace(finished).tracking_uri)
    trials = [run for run in runs(finished) if run.data.tags["ablate.kind"] == "trial"]
    for trial in trials:
        assert "samples.png" in {f.path for f in client.list_artifacts(trial.info.run_id)}


def test_a_finished_study_does_nothing(finished: Path) -> None:
    before = len(runs(finished))
    assert "nothing to do" in ablate(finished, "study", "tiny").stdout
    assert len(runs(finished)) == before


def test_more_trials_continue_it(finished: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    """4 trials, then 6 in all, are the 6 of one go."""
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


class Killed(BaseException):
    """Ends the process's work at once, as a kill would: nobody catches it."""


@pytest.mark.parametrize("write", range(4, 34, 5))
def test_a_kill_after_any_write_is_made_good(
    write: int, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th write to MLflow is the last one of a process; then a new one takes over."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    left = iter(range(write))

    def counted(method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            if next(left, None) is None:
                raise Killed
            return method(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        for name in ("create_run", "log_batch", "log_artifacts", "set_terminated", "log_artifact"):
            patched.setattr(MlflowClient, name, counted(getattr(MlflowClient, name)))
        with contextlib.suppress(Killed):
            run(setup, workspace, Quiet())
    run(setup, workspace, Quiet())
    record = Reader(workspace).latest("tiny")
    assert record is not None
    assert [trial.state for trial in record.trials] == ["complete"] * 2
    assert [len(trial.cells) for trial in record.trials] == [2, 2]
    assert all(trial.params["sampler"] == "adls" for trial in record.trials)
    left_running = [found for found in runs(tmp_path) if found.info.status == "RUNNING"]
    assert left_running == []


def _kill_after(root: Path, cells: int) -> None:
    """Start the study and kill it as soon as `cells` cells have left their pictures."""
    process = subprocess.Popen(
        command(root, "study", "tiny"), stdout=subprocess.DEVNULL, env=environment()
    )
    try:
        deadline = time.monotonic() + 600
        while _cells_with_files(root) < cells:
            assert process.poll() is None, "the study ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _cells_with_files(root: Path) -> int:
    return sum("features.npz" in files for _, _, files in os.walk(root / "mlruns" / "artifacts"))


def test_ctrl_c_leaves_nothing_running(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=8)
    process = subprocess.Popen(
        command(root, "study", "tiny"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    deadline = time.monotonic() + 600
    while _cells_with_files(root) < 1:
        assert process.poll() is None, "the study ended before it could be interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert errors.strip().endswith("interrupted; the same command continues")
    states = {(run.data.tags["ablate.kind"], run.info.status) for run in runs(root)}
    assert ("study", "KILLED") in states
    assert not any(status == "RUNNING" for _, status in states)
    ablate(root, "study", "tiny")
    assert [row["state"] for row in results(root)] == ["complete"] * 8


def _wild(root: Path) -> Setup:
    """ASAMS on levels fine enough to keep its signs; every second trial takes steps 60 times as
    long."""
    file = root / "studies" / "tiny.toml"
    text = file.read_text().replace('sampler = "adls"', 'sampler = "asams"')
    text = text.replace("levels = 6", "levels = 64\ns_min = 0.03")
    text = text.replace("{ low = 0.5, high = 1.0, step = 0.25 }", "[0.5, 60.0]")
    file.write_text(text)
    return setup_of(root)


def test_divergence_is_a_result_and_the_study_goes_on(tiny_bundle: Path, tmp_path: Path) -> None:
    setup, watcher = _wild(make_root(tmp_path, tiny_bundle)), Quiet()
    outcome = run(setup, Workspace(tmp_path), watcher)
    assert outcome.failures == []
    assert [state for _, state in watcher.states] == ["complete", "diverged"] * 2
    rows = results(tmp_path)
    assert [row["state"] for row in rows] == ["complete", "diverged"] * 2
    assert "at step" in rows[1]["reason"]
    assert "fid" not in rows[1]["metrics"]
    diverged = [run for run in runs(tmp_path) if run.data.tags.get("ablate.state") == "diverged"]
    assert {run.info.status for run in diverged} == {"FAILED"}
    assert run(setup, Workspace(tmp_path), Quiet()).ran == 0


def test_a_failed_trial_keeps_its_reason_and_the_study_goes_on(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, real = setup_of(make_root(tmp_path, tiny_bundle)), runner.run_cell

    def broken(*arguments: object, **named: object) -> object:
        if arguments[1].relative_step == 0.75:
            raise RuntimeError("no memory left")
        return real(*arguments, **named)

    monkeypatch.setattr(runner, "run_cell", broken)
    outcome = run(setup, Workspace(tmp_path), Quiet())
    assert outcome.failures == [(1, "RuntimeError: no memory left")]
    states = {row["number"]: (row["state"], row["reason"]) for row in results(tmp_path)}
    assert states[1] == ("failed", "RuntimeError: no memory left")
    assert states[2] == ("complete", None)


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


def test_the_record_has_yardsticks_protocols_and_intervals(finished: Path) -> None:
    record = Reader(Workspace(finished)).latest("tiny", "quick")
    assert record is not None
    assert set(record.baselines) == {"held-out images", "class-gaussian without network"}
    assert record.protocols["kid"]["samples"] == 40
    assert record.protocols["kid"]["reference"] == "digits/train"
    assert record.planned == 4
    for trial in record.trials:
        values = [cell.metrics["kid"] for cell in trial.cells]
        assert trial.metrics["kid"] == sum(values) / 2
        # Student's t with one degree of freedom: 12.706 · |a - b| / 2
        assert abs(trial.intervals["kid"] - 12.706 * abs(values[0] - values[1]) / 2) < 1e-12
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
    assert "class-gaussian without network" in text
    assert (page.parent / "tables" / "trials.csv").read_text().count("\n") == 5


# --- giving up early, replicates, limits, constraints, attempts ---------------------------------


def _changed(root: Path, *pairs: tuple[str, str]) -> Setup:
    file = root / "studies" / "tiny.toml"
    text = file.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return setup_of(root)


HOPELESS = ('["class-average", "lognormal", "gaussian"]', '["gaussian", "lognormal"]')
"""Starts of which the first is far better than the second."""


def test_the_worse_is_given_up_early(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=6)
    setup = _changed(root, HOPELESS, ("samples = 40", "samples = 256\nrungs = [64]"))
    watcher = Quiet()
    run(setup, Workspace(root), watcher)
    states = dict(watcher.states)
    assert states[0] == "complete"
    assert "pruned" in states.values()
    assert abs(watcher.share - 6) < 1e-9
    for row in results(root):
        assert row["state"] == states[row["number"]]
        if row["state"] == "pruned":
            assert "worse than that of trial" in row["reason"]
            assert "kid_n64" in row["metrics"]
            assert row["metrics"]["samples"] < 256 or "kid" in row["metrics"]
        else:
            assert row["metrics"]["samples"] == 256
    first = Reader(Workspace(root)).latest("tiny").trials[0]
    assert "kid_n64" not in first.metrics  # nothing to hold it against


def test_what_was_drawn_for_a_rung_is_kept(tiny_bundle: Path, tmp_path: Path) -> None:
    """With rungs and without: the same images, as many calls of the network, the same bits."""
    calls: dict[str, list[int]] = {"with": [], "without": []}
    found = {}
    for name, rungs in (("with", "\nrungs = [128]"), ("without", "")):
        root = make_root(tmp_path / name, tiny_bundle, trials=1)
        setup = _changed(root, ("samples = 40", f"samples = 256{rungs}"))
        settings = setup.study.settings(next(setup.study.grid()))
        judge = (lambda features: None) if rungs else None
        found[name] = run_cell(setup, settings, 0, lambda: calls[name].append(1), judge)  # noqa: B023
    assert len(calls["with"]) == len(calls["without"]) == 2 * 5
    assert torch.equal(found["with"].drawing.pixels, found["without"].drawing.pixels)
    same = {k: v for k, v in found["with"].metrics.items() if k in found["without"].metrics}
    assert {**same, "seconds": 0} == {**found["without"].metrics, "seconds": 0}
    assert "kid_n128" in found["with"].metrics


def test_a_killed_study_with_rungs_ends_as_if_it_had_not_been(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    """SIGKILL in mid-trial, twice, in a real process, of a search that learns from what it finds;
    then the same bits as in one go."""
    changes = (HOPELESS, ("samples = 40", "samples = 256\nrungs = [64]"))
    whole = make_root(tmp_path / "whole", tiny_bundle, "tpe", trials=5)
    run(_changed(whole, *changes), Workspace(whole), Quiet())
    killed = make_root(tmp_path / "killed", tiny_bundle, "tpe", trials=5)
    _changed(killed, *changes)
    for cells in (1, 3):
        _kill_after(killed, cells)
    assert "RUNNING" in [run.info.status for run in runs(killed)]
    ablate(killed, "study", "tiny")
    assert timeless(results(killed)) == timeless(results(whole))
    assert "RUNNING" not in [run.info.status for run in runs(killed)]


def test_a_configuration_proposed_again_gets_further_seeds(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    root = make_root(tmp_path, tiny_bundle, "random", trials=5)
    steps = ("r = { low = 0.5, high = 1.0, step = 0.25 }", "")
    setup = _changed(root, HOPELESS, steps)
    run(setup, Workspace(root), Quiet())
    trials = Reader(Workspace(root)).latest("tiny").trials
    first: dict[object, int] = {}
    for trial in trials:
        original = first.setdefault(trial.params["init"], trial.number)
        if original != trial.number:
            assert trial.state == "repeated"
            assert trial.reason == f"more seeds of trial {original}"
    originals = [trial for trial in trials if trial.state == "complete"]
    assert len(originals) == 2
    seeds = [[cell.seed for cell in trial.cells] for trial in originals]
    assert sorted(map(len, seeds)) in ([2, 8], [4, 6])
    for each in seeds:
        assert each == list(range(len(each)))  # seeds 0 and 1, then 2 and 3, …
    for trial in originals:
        values = [cell.metrics["kid"] for cell in trial.cells]
        assert abs(trial.metrics["kid"] - sum(values) / len(values)) < 1e-12


def test_limits_end_a_study_and_more_continue_it(tiny_bundle: Path, tmp_path: Path) -> None:
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


def test_of_two_that_go_at_a_limit_one_closes_the_study(tiny_bundle: Path, tmp_path: Path) -> None:
    """Both are still there as the first looks whether it is the last."""
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


def test_a_limit_counts_what_others_are_at(tiny_bundle: Path, tmp_path: Path) -> None:
    """A trial that is running will have spent its share: the last that fits is not begun twice."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=4)), Workspace(tmp_path)
    each = 5 * 40 * 2  # evaluations, samples, seeds
    capped = setup._replace(study=setup.study.model_copy(update={"evaluations": each}))
    open_search(workspace)
    one, other = (Worker(capped, workspace, Quiet()) for _ in range(2))
    assert one._claim(one.ledger.entries()) is not None
    assert other._claim(other.ledger.entries()) is None
    for worker in (one, other):
        worker.leases.close()


def test_the_study_that_was_asked_for_is_told_of(tiny_bundle: Path, tmp_path: Path) -> None:
    """A file that was changed and changed back: nothing to do, but it is the last again."""
    root = make_root(tmp_path, tiny_bundle, trials=1)
    first = setup_of(root)
    run(first, Workspace(root), Quiet())
    run(_changed(root, ("levels = 6", "levels = 7")), Workspace(root), Quiet())
    assert Reader(Workspace(root)).latest("tiny").hash != first.identity
    run(_changed(root, ("levels = 7", "levels = 6")), Workspace(root), Quiet())
    assert Reader(Workspace(root)).latest("tiny").hash == first.identity


def test_a_configuration_that_is_none_fails_and_the_study_goes_on(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    """Within a space too large for every combination to be checked: `s_min` above the start's noise
    level. The command says so in a table, and by its exit code."""
    many = ", ".join(str(0.9 + i / 1000) for i in range(100))
    root = make_root(tmp_path, tiny_bundle, "random", trials=6)
    changes = [
        ("sigma = 0.8\n", ""),
        ('init = ["class-average", "lognormal", "gaussian"]', 'init = ["gaussian"]'),
        ("r = { low = 0.5, high = 1.0, step = 0.25 }", f"r = [{many}]\nchi = [{many}]"),
        ("[search]", "[search]\nsigma = [0.8, 0.1]\ns_min = [0.01, 0.3]"),
    ]
    setup = _changed(root, *changes)
    rows = [propose(setup.study, n, []).params for n in range(6)]
    wrong = [n for n, row in enumerate(rows) if row["sigma"] < row["s_min"]]
    assert 0 < len(wrong) < 6
    refused = ablate(root, "study", "tiny", "--plan", check=False)
    assert refused.returncode == 2
    assert "is not below the start's noise level" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    done = ablate(root, "study", "tiny", check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "trial that failed" in done.stdout
    failed = {row["number"]: row["reason"] for row in results(root) if row["state"] == "failed"}
    assert list(failed) == wrong
    assert all("is not below the start's noise level" in reason for reason in failed.values())
    assert len(results(root)) == 6
    again = ablate(root, "study", "tiny", check=False)
    assert again.returncode == 1
    assert "nothing to do" in again.stdout


def test_a_rival_that_cannot_be_fetched_is_nobodys_failure(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store of artifacts is away: the study stops, no trial is given up for it."""
    root = make_root(tmp_path, tiny_bundle, trials=3)
    setup = _changed(root, ("samples = 40", "samples = 128\nrungs = [64]"))

    def away(*_: object) -> Path:
        raise MlflowException("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "download_artifacts", away)
        with pytest.raises(PassingError, match="the store is away; the same command continues"):
            run(setup, Workspace(root), Quiet())
    assert run(setup, Workspace(root), Quiet()).failures == []
    assert not {row["state"] for row in results(root)} & {"failed", "running"}


def test_what_breaks_a_constraint_is_not_ranked(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=4)
    run(setup_of(root), Workspace(root), Quiet())
    rates = [row["metrics"]["clamp_rate"] for row in results(root)]
    bound = sorted(rates)[1]
    setup = _changed(root, ("[fixed]", f"[constraints]\nclamp_rate = {bound}\n[fixed]"))
    run(setup, Workspace(root), Quiet())
    record = Reader(Workspace(root)).latest("tiny")
    assert [t.metrics["clamp_rate"] for t in record.trials] == rates
    assert {t.number for t in record.ranked()} == {n for n in range(4) if rates[n] <= bound}


def test_a_cell_that_fails_is_tried_again(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, real, times = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), runner.run_cell, [0]

    def shaky(*arguments: object, **named: object) -> object:
        times[0] += 1
        if times[0] in (2, 3):
            raise RuntimeError(f"failure {times[0]}")
        return real(*arguments, **named)

    monkeypatch.setattr(runner, "run_cell", shaky)
    watcher = Quiet()
    assert run(setup, Workspace(tmp_path), watcher).failures == []
    assert abs(watcher.share - 2) < 1e-9
    failed = [found for found in runs(tmp_path) if found.data.tags.get("ablate.state") == "failed"]
    assert {found.data.tags["ablate.reason"] for found in failed} == {
        "RuntimeError: failure 2",
        "RuntimeError: failure 3",
    }
    assert [len(trial.cells) for trial in Reader(Workspace(tmp_path)).latest("tiny").trials] == [
        2,
        2,
    ]


def test_a_cell_that_kills_its_process_is_given_up_at_last(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that wants more memory than there is; the study goes on without it."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    client = MlflowClient(workspace.tracking_uri)

    def dies(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(runner, "DEATHS", 2)
    for _ in range(2):
        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            patched.setattr(runner, "run_cell", dies)
            run(setup, workspace, Quiet())
        for found in runs(tmp_path):  # a real kill leaves no time to say so
            if found.data.tags.get("ablate.reason") == "the study was stopped":
                client.update_run(found.info.run_id, status="RUNNING")
    watcher = Quiet()
    outcome = run(setup, workspace, watcher)
    assert outcome.failures == [(0, "seed 0: its process was killed 2 times")]
    assert watcher.states == [(0, "failed"), (1, "complete")]


def test_a_trial_that_ends_while_another_asks_is_not_run_again(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a worker's look at the trials and its asking for one, the owner may have finished."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    run(setup, workspace, Quiet())
    worker = Worker(setup, workspace, Quiet())
    entries = [entry._replace(state="running") for entry in worker.ledger.entries()]
    assert worker._claim(entries) is None
    assert worker.leases.take("trial/0")  # given back
    worker.leases.close()


def test_the_last_word_on_a_run_is_one_transaction(
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
    """Of 9 trials: enough for fANOVA's two a knob, too few for PED-ANOVA."""
    record = Reader(Workspace(whole)).latest("tiny")
    study = next(run for run in runs(whole) if run.data.tags["ablate.kind"] == "study")
    assert set(record.importance["kid"]) == {"fANOVA"}
    for method, shares in record.importance["kid"].items():
        assert set(shares) == {"init", "r"}
        for knob, share in shares.items():
            assert study.data.metrics[f"importance/kid/{method}/{knob}"] == share


def test_a_trial_that_another_took_over_is_left_to_it(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This worker was out of touch while it drew its first cell, and another machine, which then
    goes silent too, has its lease: the cell is dropped, and in the end everything is there once."""
    setup, workspace, real = (
        setup_of(make_root(tmp_path, tiny_bundle, trials=2)),
        Workspace(tmp_path),
        run_cell,
    )
    stolen: list[int] = []

    def slow(*arguments: object, **named: object) -> object:
        result = real(*arguments, **named)
        if not stolen:
            stolen.append(1)
            with sqlite3.connect(workspace.search) as database:
                database.execute(
                    "UPDATE ablate_leases SET owner = 'elsewhere 1:1 other', until = ?"
                    " WHERE item = 'trial/0'",
                    (time.time() + 2,),
                )
        return result

    monkeypatch.setattr(runner, "run_cell", slow)
    monkeypatch.setattr(Leases, "holds", Leases.renew)  # as if half the lease's time had passed
    watcher = Quiet()
    run(setup, workspace, watcher)
    assert sorted(watcher.states) == [(0, "complete"), (1, "complete")]
    cells = [each for each in runs(tmp_path) if each.data.tags["ablate.kind"] == "cell"]
    reasons = [each.data.tags["ablate.reason"] for each in cells if each.info.status == "KILLED"]
    assert reasons == ["another worker took over"]
    assert len(cells) == 5
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}


def test_a_kill_before_the_last_word_is_made_good(tiny_bundle: Path, tmp_path: Path) -> None:
    """The study says that it is complete, but its status was not set any more."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=1)), Workspace(tmp_path)
    run(setup, workspace, Quiet())
    study = next(each for each in runs(tmp_path) if each.data.tags["ablate.kind"] == "study")
    MlflowClient(workspace.tracking_uri).update_run(study.info.run_id, status="RUNNING")
    run(setup, workspace, Quiet())
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}


def test_a_repeat_of_what_was_given_up_stands_for_itself() -> None:
    def trial(number: int, state: str) -> Trial:
        cell = Cell(f"r{number}", number, "complete", {"kid": float(number)})
        return Trial(
            f"t{number}", number, state, {"init": "a"}, dict(cell.metrics), {}, None, [cell]
        )

    pruned_trials, complete, repeated = _merged(
        [trial(0, "pruned"), trial(1, "complete"), trial(2, "complete")]
    )
    assert pruned_trials.state == "pruned"
    assert complete.state == "complete"
    assert complete.metrics["kid"] == 1.5
    assert [cell.seed for cell in complete.cells] == [1, 2]
    assert (repeated.state, repeated.reason) == ("repeated", "more seeds of trial 1")
