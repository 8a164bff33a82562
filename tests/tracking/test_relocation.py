"""Records that moved: a root that is renamed or copied keeps its pictures, and can be continued."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from ablate.results import FEATURES, SAMPLES, StudyResults
from ablate.tracking.reader import Reader
from ablate.tracking.relocation import correct_places
from tests.support.commands import ablate
from tests.support.studies import Quiet, make_root, record_of, results, runs, setup_of, timeless


def places(root: Path) -> list[str]:
    """Every place that the record has, but that of MLflow's own experiment."""
    with sqlite3.connect(Workspace(root).record) as record:
        return [
            place
            for table, column in (
                ("experiments", "artifact_location"),
                ("runs", "artifact_uri"),
                ("logged_models", "artifact_location"),
            )
            for (place,) in record.execute(f"SELECT {column} FROM {table} WHERE experiment_id > 0")
        ]


def cells_read(record: StudyResults, root: Path) -> list[Path]:
    reader = Reader(Workspace(root))
    return [reader.fetch(cell.run_id, FEATURES) for t in record.trials for cell in t.cells]


@pytest.fixture
def begun(tiny_bundle: Path, tmp_path: Path) -> Path:
    """A root with 4 trials of a study that goes on."""
    root = make_root(tmp_path / "here", tiny_bundle, trials=4)
    run(setup_of(root), Workspace(root), Quiet())
    return root


def test_a_renamed_root_is_read_without_a_write(begun: Path, tmp_path: Path) -> None:
    """Also at a place whose name is quoted in a URL."""
    before, old = results(begun), places(begun)
    root = begun.rename(tmp_path / "to a café")
    record = record_of(Workspace(root))
    assert results(root) == before
    found = cells_read(record, root)
    assert len(found) == 8
    assert all(file.is_relative_to(root) for file in found)
    assert places(root) == old
    assert "Does it run?" in Path(ablate(root, "report", "tiny").stdout.strip()).read_text()


def go_on(root: Path, trials: int) -> None:
    """More trials, by the command: a process knows of the old place for as long as it lives."""
    file = root / "studies" / "tiny.toml"
    file.write_text(file.read_text().replace("trials = 4", f"trials = {trials}"))
    ablate(root, "study", "tiny", "--budget", "quick")


def test_a_renamed_root_goes_on_as_if_it_had_not_moved(
    begun: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    other = make_root(tmp_path / "other", tiny_bundle, trials=6)
    run(setup_of(other), Workspace(other), Quiet())
    root = begun.rename(tmp_path / "to a café")
    go_on(root, 6)
    assert timeless(results(root)) == timeless(results(other))
    assert all(p.startswith(Workspace(root).artifacts.as_uri()) for p in places(root))
    assert not begun.exists()  # nothing was written to the old place


def test_a_copy_leaves_the_original_alone(begun: Path, tmp_path: Path) -> None:
    """Although its places are those of the original, which is still there."""
    copy = shutil.copytree(begun, tmp_path / "there")
    files, old = sorted(begun.rglob("*")), places(begun)
    go_on(copy, 5)
    assert len(cells_read(record_of(Workspace(copy)), copy)) == 10
    assert (sorted(begun.rglob("*")), places(begun)) == (files, old)


def test_an_artifact_is_not_taken_from_the_original(begun: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(begun, tmp_path / "there")
    cell = record_of(Workspace(copy)).trials[0].cells[0].run_id
    (picture,) = copy.glob(f"mlruns/artifacts/*/{cell}/artifacts/{SAMPLES}")
    picture.unlink()
    with pytest.raises(FileNotFoundError, match=f"{cell} has no {SAMPLES}"):
        Reader(Workspace(copy)).fetch(cell, SAMPLES)


def test_correct_places_are_those_of_mlflow(begun: Path, tmp_path: Path) -> None:
    """MLflow itself, and so its UI, finds what was moved; a second time there is nothing to do."""
    root = begun.rename(tmp_path / "to a café")
    assert correct_places(Workspace(root)) == 1
    assert correct_places(Workspace(root)) == 0
    client = MlflowClient(Workspace(root).tracking_uri)
    trial = next(run for run in runs(root) if run.data.tags["ablate.kind"] == "trial")
    names = {file.path for file in client.list_artifacts(trial.info.run_id)}
    assert {"first-samples.png", SAMPLES} <= names


def leave_a_half_done_write(database: Path, scratch: Path) -> None:
    """Bring a database to the state of a kill in mid-write: changed pages on disk, and the journal
    that restores them."""
    shutil.copy(database, scratch)
    with closing(sqlite3.connect(scratch, isolation_level=None)) as record:
        record.execute("PRAGMA cache_size = 1")  # so that pages are written before the commit
        record.execute("BEGIN")
        record.execute("UPDATE tags SET value = 'half done'")
        record.execute("UPDATE experiments SET name = name || ' half done'")
        for file in (scratch, journal_of(scratch)):
            shutil.copy(file, database.with_name(file.name.replace(scratch.name, database.name)))


def journal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-journal")


def test_a_write_that_was_killed_is_undone(begun: Path, tmp_path: Path) -> None:
    """The journal is rolled back, which a record opened for reading alone refuses to do."""
    database, before = Workspace(begun).record, results(begun)
    leave_a_half_done_write(database, tmp_path / "scratch.db")
    with (
        pytest.raises(sqlite3.OperationalError, match="readonly"),
        closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as record,
    ):
        record.execute("SELECT * FROM experiments").fetchall()
    assert correct_places(Workspace(begun)) == 0
    assert not journal_of(database).exists()
    assert results(begun) == before


@pytest.mark.parametrize("way", ["link", "artifacts elsewhere"])
def test_places_that_still_hold_stay(begun: Path, tmp_path: Path, way: str) -> None:
    """The same folder by another path; and artifacts that did not come along with the record."""
    old = places(begun)
    if way == "link":
        other = tmp_path / "link"
        other.symlink_to(begun)
    else:
        other = tmp_path / "there"
        shutil.copytree(begun, other, ignore=shutil.ignore_patterns("artifacts"))
    assert correct_places(Workspace(other)) == 0
    assert places(other) == old
