"""How far studies are, without MLflow: the same answer as through it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from ablate.core.workspace import Workspace
from ablate.tracking.glance import progress
from ablate.tracking.reader import Reader


def through_mlflow(workspace: Workspace) -> dict[str, str]:
    reader = Reader(workspace)
    records = {name: reader.latest(name) for name in reader.names()}
    return {name: record.progress() for name, record in records.items() if record is not None}


def test_a_glance_sees_what_the_reader_sees(whole: Path, tmp_path: Path) -> None:
    """Of a finished study, and of one with a trial that runs and one that was interrupted."""
    shutil.copytree(whole, tmp_path / "root")
    workspace = Workspace(tmp_path / "root")
    assert progress(workspace) == through_mlflow(workspace) == {"tiny": "quick: 9 of 9 trials"}
    with sqlite3.connect(workspace.record) as connection:
        for number, status in ((3, "RUNNING"), (5, "KILLED"), (7, "FAILED")):
            connection.execute(
                "UPDATE runs SET status = ? WHERE run_uuid IN (SELECT a.run_uuid FROM tags a"
                " JOIN tags b USING (run_uuid) WHERE a.key = 'ablate.kind' AND a.value = 'trial'"
                " AND b.key = 'ablate.trial' AND b.value = ?)",
                (status, str(number)),
            )
    assert progress(workspace) == through_mlflow(workspace) == {"tiny": "quick: 7 of 9 trials"}


def test_a_record_of_another_kind_is_left_to_the_reader(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.record.parent.mkdir()
    with sqlite3.connect(workspace.record) as connection:
        connection.execute("CREATE TABLE runs (something_else TEXT)")
    assert progress(workspace) is None
