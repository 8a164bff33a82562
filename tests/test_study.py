"""Studies end to end: run, continued, killed, diverged, failed; and what MLflow then holds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from ablate import study as runner
from ablate.errors import UserError
from ablate.files import locked
from ablate.home import Home
from ablate.lab import Lab
from ablate.study import run
from ablate.tracking import Reader
from tests.studies import (
    Quiet,
    ablate,
    command,
    environment,
    lab_of,
    make_root,
    results,
    timeless,
)


def runs(root: Path) -> list[object]:
    client = MlflowClient(Home(root).tracking_uri)
    experiment = client.get_experiment_by_name("tiny")
    return list(client.search_runs([experiment.experiment_id], max_results=1000))


@pytest.fixture(scope="module")
def finished(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose study `tiny` was run to its end by the real command."""
    root = make_root(tmp_path_factory.mktemp("finished") / "root", tiny_bundle)
    ablate(root, "study", "tiny")
    return root


def test_every_planned_trial_is_there_once(finished: Path):
    rows = results(finished)
    assert [row["number"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        assert row["state"] == "complete"
        assert set(row) >= {"number", "state", "params", "metrics", "nfe", "seconds", "reason"}
        assert row["nfe"] == 5
        assert {"fid", "kid", "clamp_rate", "flip_rate"} <= set(row["metrics"])
        assert row["params"]["r"] == 5 * row["params"]["delta"] * 6 / 5


def test_runs_are_nested_and_carry_what_they_should(finished: Path):
    by_id = {run.info.run_id: run for run in runs(finished)}
    kinds = [run.data.tags["ablate.kind"] for run in by_id.values()]
    assert (kinds.count("study"), kinds.count("trial"), kinds.count("cell")) == (1, 4, 8)
    client = MlflowClient(Home(finished).tracking_uri)
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


def test_a_trial_shows_its_samples(finished: Path):
    client = MlflowClient(Home(finished).tracking_uri)
    trials = [run for run in runs(finished) if run.data.tags["ablate.kind"] == "trial"]
    for trial in trials:
        assert "samples.png" in {f.path for f in client.list_artifacts(trial.info.run_id)}


def test_a_finished_study_does_nothing(finished: Path):
    before = len(runs(finished))
    assert "nothing to do" in ablate(finished, "study", "tiny").stdout
    assert len(runs(finished)) == before


def test_more_trials_continue_it(finished: Path, tiny_bundle: Path, tmp_path: Path):
    """4 trials, then 6 in all, are the 6 of one go."""
    lab = lab_of(make_root(tmp_path / "a", tiny_bundle, trials=6))
    run(lab, Home(tmp_path / "a"), Quiet())
    some = lab_of(make_root(tmp_path / "b", tiny_bundle, trials=4))
    run(some, Home(tmp_path / "b"), Quiet())
    assert some.key == lab.key
    watcher = Quiet()
    outcome = run(lab, Home(tmp_path / "b"), watcher)
    assert (outcome.already, outcome.ran) == (4, 2)
    assert [number for number, _ in watcher.states] == [4, 5]
    assert timeless(results(tmp_path / "a")) == timeless(results(tmp_path / "b"))


def test_progress_adds_up(tiny_bundle: Path, tmp_path: Path):
    watcher = Quiet()
    run(lab_of(make_root(tmp_path, tiny_bundle, trials=2)), Home(tmp_path), watcher)
    assert watcher.span == (0, 2)
    assert abs(watcher.share - 2) < 1e-9


@pytest.mark.parametrize("method", ["grid", "tpe"])
def test_a_killed_study_ends_as_if_it_had_not_been(method: str, tiny_bundle: Path, tmp_path: Path):
    """SIGKILL in mid-trial, twice, in a real process; then the same bits as in one go."""
    whole = make_root(tmp_path / "whole", tiny_bundle, method, trials=8)
    run(lab_of(whole), Home(whole), Quiet())
    killed = make_root(tmp_path / "killed", tiny_bundle, method, trials=8)
    for cells in (1, 3):
        _kill_after(killed, cells)
    left = [run.info.status for run in runs(killed)]
    assert "RUNNING" in left
    ablate(killed, "study", "tiny")
    assert timeless(results(killed)) == timeless(results(whole))
    done = [run for run in runs(killed) if run.info.status != "KILLED"]
    assert {run.info.status for run in done} == {"FINISHED"}
    kinds = [run.data.tags["ablate.kind"] for run in done]
    assert (kinds.count("study"), kinds.count("trial"), kinds.count("cell")) == (1, 8, 16)


class Killed(BaseException):
    """Ends the process's work at once, as a kill would: nobody catches it."""


@pytest.mark.parametrize("write", range(4, 34, 5))
def test_a_kill_after_any_write_is_made_good(
    write: int, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The n-th write to MLflow is the last one of a process; then a new one takes over."""
    lab, home = lab_of(make_root(tmp_path, tiny_bundle, trials=2)), Home(tmp_path)
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
            run(lab, home, Quiet())
    run(lab, home, Quiet())
    record = Reader(home).latest("tiny")
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


def test_ctrl_c_leaves_nothing_running(tiny_bundle: Path, tmp_path: Path):
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


def test_two_processes_do_not_run_one_study(tiny_bundle: Path, tmp_path: Path):
    lab, home = lab_of(make_root(tmp_path, tiny_bundle)), Home(tmp_path)
    lock = home.mlruns / f".{lab.key.replace('/', '-')}.lock"
    with (
        locked(lock, "held"),
        pytest.raises(UserError, match="is being run by another process"),
    ):
        run(lab, home, Quiet())


def _wild(root: Path) -> Lab:
    """ASAMS on levels fine enough to keep its signs; every second trial takes steps 60 times as
    long."""
    file = root / "studies" / "tiny.toml"
    text = file.read_text().replace('sampler = "adls"', 'sampler = "asams"')
    text = text.replace("levels = 6", "levels = 64\ns_min = 0.03")
    text = text.replace("{ low = 0.5, high = 1.0, step = 0.25 }", "[0.5, 60.0]")
    file.write_text(text)
    return lab_of(root)


def test_divergence_is_a_result_and_the_study_goes_on(tiny_bundle: Path, tmp_path: Path):
    lab, watcher = _wild(make_root(tmp_path, tiny_bundle)), Quiet()
    outcome = run(lab, Home(tmp_path), watcher)
    assert outcome.failures == []
    assert [state for _, state in watcher.states] == ["complete", "diverged"] * 2
    rows = results(tmp_path)
    assert [row["state"] for row in rows] == ["complete", "diverged"] * 2
    assert "at step" in rows[1]["reason"]
    assert "fid" not in rows[1]["metrics"]
    diverged = [run for run in runs(tmp_path) if run.data.tags["ablate.state"] == "diverged"]
    assert {run.info.status for run in diverged} == {"FAILED"}
    assert run(lab, Home(tmp_path), Quiet()).ran == 0


def test_a_failed_trial_keeps_its_reason_and_the_study_goes_on(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lab, real = lab_of(make_root(tmp_path, tiny_bundle)), runner.run_cell

    def broken(*arguments: object, **named: object) -> object:
        if arguments[1].relative_step == 0.75:
            raise RuntimeError("no memory left")
        return real(*arguments, **named)

    monkeypatch.setattr(runner, "run_cell", broken)
    outcome = run(lab, Home(tmp_path), Quiet())
    assert outcome.failures == [(1, "RuntimeError: no memory left")]
    states = {row["number"]: (row["state"], row["reason"]) for row in results(tmp_path)}
    assert states[1] == ("failed", "RuntimeError: no memory left")
    assert states[2] == ("complete", None)


def test_a_changed_study_is_another_study(tiny_bundle: Path, tmp_path: Path):
    root = make_root(tmp_path, tiny_bundle, trials=2)
    first = lab_of(root)
    run(first, Home(root), Quiet())
    file = root / "studies" / "tiny.toml"
    file.write_text(file.read_text().replace("levels = 6", "levels = 7"))
    second = lab_of(root)
    assert second.key != first.key
    run(second, Home(root), Quiet())
    record = Reader(Home(root)).latest("tiny")
    assert record is not None
    assert record.hash == second.identity
    assert {trial.params["levels"] for trial in record.trials} == {7}


def test_the_record_has_yardsticks_protocols_and_intervals(finished: Path):
    record = Reader(Home(finished)).latest("tiny", "quick")
    assert record is not None
    assert set(record.yardsticks) == {"held-out images", "class-gaussian without network"}
    assert record.protocols["kid"]["samples"] == 40
    assert record.protocols["kid"]["reference"] == "digits/train"
    assert record.planned == 4
    for trial in record.trials:
        values = [cell.metrics["kid"] for cell in trial.cells]
        assert trial.metrics["kid"] == sum(values) / 2
        # Student's t with one degree of freedom: 12.706 · |a - b| / 2
        assert abs(trial.intervals["kid"] - 12.706 * abs(values[0] - values[1]) / 2) < 1e-12
    assert Reader(Home(finished)).latest("tiny", "full") is None


def test_the_report_is_made_from_the_record(finished: Path):
    printed = ablate(finished, "report", "tiny").stdout.strip()
    page = Path(printed)
    assert page == finished / "reports" / "tiny" / "index.html"
    text = page.read_text()
    assert "Does it run?" in text
    assert "class-gaussian without network" in text
    assert (page.parent / "tables" / "trials.csv").read_text().count("\n") == 5
