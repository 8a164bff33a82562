"""Small studies on the tiny bundle, and ways to run them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from ablate.cli.console import trial_rows
from ablate.core.workspace import Workspace
from ablate.experiment.prepare import Setup, prepare
from ablate.results import FEATURES, StudyResults
from ablate.search import make_tables
from ablate.study.find import find, read
from ablate.tracking.reader import Reader
from ablate.tracking.writer import Tracker
from tests.support.commands import ablate, command, environment

__all__ = [
    "STARTS",
    "TEXT",
    "TRIALS",
    "Quiet",
    "Workspace",
    "ablate",
    "changed",
    "command",
    "copy_of_record",
    "copy_of_search",
    "done_cells",
    "environment",
    "litter",
    "make_root",
    "record_of",
    "results",
    "runs",
    "setup_of",
    "timeless",
]

TEXT = """
question = "Does it run?"
bundle = "tiny.safetensors"
method = "{method}"
seeds = [0, 1]
confirm = false
[fixed]
sampler = "adls"
sigma = 0.8
levels = 6
[search]
init = ["class-average", "lognormal", "gaussian"]
r = {{ low = 0.5, high = 1.0, step = 0.25 }}
[budgets.quick]
samples = 40
trials = {trials}
"""


@sa.event.listens_for(sa.Engine, "connect")
def _leave_writes_to_the_system(connection: Any, _: object) -> None:
    """SQLite waits for the disk at every commit, about 10 ms. That guards against power failure,
    which no test simulates; what a killed process has committed stays either way."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


TRIALS = 9
"""Trials of the study that others are compared with: the whole grid."""


@cache
def _empty_databases() -> tempfile.TemporaryDirectory[str]:
    """A root with empty databases, to copy: MLflow takes seconds to create its tables."""
    folder = tempfile.TemporaryDirectory(prefix="ablate-empty-")
    workspace = Workspace(Path(folder.name))
    Tracker(workspace)
    make_tables(workspace.search)
    return folder


def copy_of_record(path: Path) -> Path:
    """An empty database of MLflow's at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Workspace(Path(_empty_databases().name)).record, path)
    return path


def copy_of_search(path: Path) -> Path:
    """An empty database of Optuna's at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Workspace(Path(_empty_databases().name)).search, path)
    return path


def make_root(
    folder: Path, bundle: Path, method: str = "grid", trials: int = 4, *, databases: bool = True
) -> Path:
    """A root with the study `tiny`. Without `databases` the first command creates them."""
    (folder / "studies").mkdir(parents=True)
    shutil.copy(bundle, folder / "tiny.safetensors")
    text = TEXT.format(method=method, trials=trials)
    (folder / "studies" / "tiny.toml").write_text(text)
    if databases:
        copy_of_record(Workspace(folder).record)
        copy_of_search(Workspace(folder).search)
    return folder


def setup_of(root: Path, name: str = "tiny") -> Setup:
    workspace = Workspace(root)
    return prepare(read(find(workspace, name), "quick"), workspace)


def changed(root: Path, *pairs: tuple[str, str]) -> Setup:
    """The study `tiny` after replacing texts in its file."""
    file = root / "studies" / "tiny.toml"
    text = file.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return setup_of(root)


STARTS = ('["class-average", "lognormal", "gaussian"]', '["gaussian", "lognormal"]')
"""For `changed`: two initialisations, of which the first is far better."""


def done_cells(folder: Path) -> int:
    """How many cells under a folder have written their files."""
    return sum(FEATURES in files for _, _, files in os.walk(folder))


def litter(root: Path) -> list[Path]:
    """What killed processes left: files of cells that were not finished, parts of databases, and
    leases."""
    done = {found.info.run_id for found in runs(root) if found.info.status == "FINISHED"}
    workspace = Workspace(root)
    files = [file for file in workspace.artifacts.rglob("*.npz") if not done & set(file.parts)]
    parts = [file for file in workspace.mlruns.glob(".*.db.*") if len(file.suffix) > len(".lock")]
    with sqlite3.connect(workspace.search) as database:
        leases = database.execute("SELECT item FROM ablate_leases").fetchall()
    return [*files, *parts, *(Path(item) for (item,) in leases)]


class Quiet:
    """A watcher that keeps what is reported to it."""

    def __init__(self) -> None:
        self.states: list[tuple[int, str]] = []
        self.share = 0.0
        self.steps: list[int] = []  # of networks that the study trained

    def began(self, done: int, total: int, best: float | None) -> None:
        self.span, self.best = (done, total), best

    def advanced(self, share: float) -> None:
        self.share += share

    def trained(self, steps: int) -> None:
        self.steps.append(steps)

    def stands(self, done: int, best: float | None) -> None:
        self.done = done

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
        self.states.append((number, state))


def runs(place: Path | str) -> list[Run]:
    """All runs of the study `tiny`, under a root or at a tracking URI."""
    client = MlflowClient(place if isinstance(place, str) else Workspace(place).tracking_uri)
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], max_results=5000))


def record_of(workspace: Workspace, name: str = "tiny") -> StudyResults:
    record = Reader(workspace).latest(name)
    assert record is not None
    return record


def results(root: Path, name: str = "tiny") -> list[dict[str, Any]]:
    """What `ablate results --json` prints."""
    rows: list[dict[str, Any]] = json.loads(
        json.dumps(trial_rows(record_of(Workspace(root), name)))
    )
    return rows


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results without durations, which differ from run to run."""
    return [
        {
            "number": row["number"],
            "state": row["state"],
            "params": row["params"],
            "metrics": {k: v for k, v in row["metrics"].items() if k != "seconds"},
        }
        for row in rows
    ]
