"""Studies that are killed, stopped or taken over in the middle, and then continued."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.workspace import Workspace
from ablate.experiment import cell_attempts, trial_cells
from ablate.experiment.cell import CellResult, run_cell
from ablate.experiment.leases import Leases
from ablate.experiment.prepare import Setup
from ablate.experiment.worker import Worker, run
from tests.experiment.test_flights import Threads
from tests.support.commands import Command, ablate, until
from tests.support.studies import (
    STARTS,
    Quiet,
    changed,
    done_cells,
    litter,
    make_root,
    record_of,
    results,
    runs,
    setup_of,
    timeless,
)


class Killed(BaseException):
    """Ends a process's work at once, as a kill would: nothing catches it."""


@pytest.mark.parametrize("write", range(4, 34, 5))
def test_a_kill_after_any_write_is_made_good(
    write: int, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th write to MLflow is the last of a process; then another process continues."""
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
    record = record_of(workspace)
    assert [trial.state for trial in record.trials] == ["complete"] * 2
    assert [len(trial.cells) for trial in record.trials] == [2, 2]
    assert all(trial.params["sampler"] == "adls" for trial in record.trials)
    left_running = [found for found in runs(tmp_path) if found.info.status == "RUNNING"]
    assert left_running == []
    assert litter(tmp_path) == []


def kill_after(root: Path, cells: int) -> None:
    """Start the study and kill it as soon as `cells` cells have written their files."""
    process = Command(root, "study", "tiny")
    try:
        until(lambda: done_cells(root) >= cells, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_ctrl_c_leaves_nothing_running(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=8)
    process = Command(root, "study", "tiny")
    until(lambda: done_cells(root) >= 1, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert errors.strip().endswith("interrupted; the same command continues")
    states = {(run.data.tags["ablate.kind"], run.info.status) for run in runs(root)}
    assert ("study", "KILLED") in states
    assert not any(status == "RUNNING" for _, status in states)
    ablate(root, "study", "tiny")
    assert [row["state"] for row in results(root)] == ["complete"] * 8


def test_a_killed_study_with_rungs_has_the_same_results(tiny_bundle: Path, tmp_path: Path) -> None:
    """A search that learns from its results is killed in mid-trial, twice, in a real process; then
    it has the same bits as a run without kills."""
    changes = (STARTS, ("samples = 40", "samples = 256\nrungs = [64]"))
    whole = make_root(tmp_path / "whole", tiny_bundle, "tpe", trials=5)
    run(changed(whole, *changes), Workspace(whole), Quiet())
    killed = make_root(tmp_path / "killed", tiny_bundle, "tpe", trials=5)
    changed(killed, *changes)
    for cells in (1, 3):
        kill_after(killed, cells)
    assert "RUNNING" in [run.info.status for run in runs(killed)]
    assert litter(killed) != []
    ablate(killed, "study", "tiny")
    assert litter(killed) == []
    assert timeless(results(killed)) == timeless(results(whole))
    assert "RUNNING" not in [run.info.status for run in runs(killed)]


def test_a_cell_that_kills_its_process_fails_at_last(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell may need more memory than there is; the study goes on without its trial."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    die_twice_at_a_cell(setup, workspace, monkeypatch)
    watcher = Quiet()
    outcome = run(setup, workspace, watcher)
    assert outcome.failures == [(0, "seed 0: its process was killed 2 times")]
    assert watcher.states == [(0, "failed"), (1, "complete")]


def test_kills_of_a_driver_are_not_counted_against_a_cell_drawn_elsewhere(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that proposes and records does not draw it: its death is not the cell's doing."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    die_twice_at_a_cell(setup, workspace, monkeypatch)
    watcher, executor = Quiet(), Threads(setup, 1)
    assert run(setup, workspace, watcher, executor).failures == []
    executor.close()
    assert watcher.states == [(0, "complete"), (1, "complete")]


def die_twice_at_a_cell(
    setup: Setup, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes are killed as they draw the first cell; more are not allowed."""
    client = MlflowClient(workspace.tracking_uri)

    def dies(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(trial_cells, "DEATHS", 2)
    for _ in range(2):
        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            patched.setattr(cell_attempts, "run_cell", dies)
            run(setup, workspace, Quiet())
        for each in runs(workspace.root):  # a real kill leaves the run as it is
            if each.data.tags.get("ablate.reason") == "the study was stopped":
                client.update_run(each.info.run_id, status="RUNNING")


def test_a_trial_that_ends_while_another_asks_is_not_run_again(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial's owner may finish it after another worker read the trials and before it claims."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    run(setup, workspace, Quiet())
    worker = Worker(setup, workspace, Quiet())
    entries = [entry._replace(state="running") for entry in worker.ledger.entries()]
    assert worker.claims.claim(entries) is None
    assert worker.leases.take("trial/0")  # released
    worker.leases.close()


def test_a_trial_that_another_took_over_is_left_to_it(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While this worker draws its first cell without renewing its lease, a worker on another
    machine takes the lease and dies. The cell is dropped; in the end every cell is there once."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    stolen: list[int] = []

    def slow(*arguments: Any) -> CellResult:
        result = run_cell(*arguments)
        if not stolen:
            stolen.append(1)
            with sqlite3.connect(workspace.search) as database:
                database.execute(
                    "UPDATE ablate_leases SET owner = 'elsewhere 1:1 other', until = ?"
                    " WHERE item = 'trial/0'",
                    (time.time() + 2,),
                )
        return result

    monkeypatch.setattr(cell_attempts, "run_cell", slow)
    monkeypatch.setattr(Leases, "holds", Leases.renew)  # as if half the lease's time had passed
    watcher = Quiet()
    run(setup, workspace, watcher)
    assert sorted(watcher.states) == [(0, "complete"), (1, "complete")]
    cells = [each for each in runs(tmp_path) if each.data.tags["ablate.kind"] == "cell"]
    reasons = [each.data.tags["ablate.reason"] for each in cells if each.info.status == "KILLED"]
    assert reasons == ["another worker took over"]
    assert len(cells) == 5
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}


def test_a_kill_before_the_last_status_is_made_good(tiny_bundle: Path, tmp_path: Path) -> None:
    """Everything of the study is written but its status."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=1)), Workspace(tmp_path)
    run(setup, workspace, Quiet())
    study = next(each for each in runs(tmp_path) if each.data.tags["ablate.kind"] == "study")
    MlflowClient(workspace.tracking_uri).update_run(study.info.run_id, status="RUNNING")
    run(setup, workspace, Quiet())
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}
