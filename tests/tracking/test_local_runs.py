"""A local record read from its tables: the same results as through MLflow."""

from __future__ import annotations

import math
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.core.workspace import Workspace
from ablate.results import StudyResults
from ablate.tracking.local_runs import LocalRuns
from ablate.tracking.reader import Reader
from ablate.tracking.served_runs import ServedRuns


def read(workspace: Workspace, *, through_mlflow: bool) -> StudyResults:
    reader = Reader(workspace)
    if through_mlflow:
        reader._runs = ServedRuns(workspace.tracking_uri)
    record = reader.latest("tiny")
    assert record is not None
    return record


@pytest.fixture
def workspace(whole: Path, tmp_path: Path) -> Workspace:
    root = tmp_path / "root"
    shutil.copytree(whole, root)
    return Workspace(root)


def test_tables_give_what_mlflow_gives(workspace: Workspace) -> None:
    assert read(workspace, through_mlflow=False) == read(workspace, through_mlflow=True)
    found, served = LocalRuns(workspace.record), ServedRuns(workspace.tracking_uri)
    assert [each[:2] for each in found.experiments()] == [e[:2] for e in served.experiments()]


def test_also_in_records_without_the_tag_of_knobs_and_with_numbers_that_are_none(
    workspace: Workspace,
) -> None:
    with sqlite3.connect(workspace.record) as database:
        database.execute("DELETE FROM tags WHERE key = 'ablate.knobs'")
        database.execute("UPDATE latest_metrics SET is_nan = 1, value = 0 WHERE key = 'recall'")
    ours, theirs = (read(workspace, through_mlflow=each) for each in (False, True))
    assert ours.trials[0].params == theirs.trials[0].params != {}
    assert math.isnan(ours.trials[0].metrics["recall"])
    assert [trial.state for trial in ours.trials] == [trial.state for trial in theirs.trials]


def test_a_path_is_not_read_as_an_address(workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "a ?#%41" / "mlflow.db"
    file.parent.mkdir()
    shutil.copy(workspace.record, file)
    assert LocalRuns(file).experiments() == LocalRuns(workspace.record).experiments()


def test_deleted_runs_are_left_out(workspace: Workspace) -> None:
    with sqlite3.connect(workspace.record) as database:
        database.execute(
            "UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid IN"
            " (SELECT run_uuid FROM tags WHERE key = 'ablate.trial' AND value = '3')"
        )
    ours, theirs = (read(workspace, through_mlflow=each) for each in (False, True))
    assert 3 not in {trial.number for trial in ours.trials}
    assert ours == theirs


def test_results_are_printed_without_importing_mlflow(workspace: Workspace) -> None:
    code = (
        "import sys, ablate.cli\n"
        "try:\n    ablate.cli.main()\n"
        "finally:\n    assert 'mlflow' not in sys.modules, 'imported'\n"
    )
    line = [sys.executable, "-c", code, "--root", str(workspace.root), "results", "tiny"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "9 of 9 trials" in done.stdout
