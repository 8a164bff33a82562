"""Records that moved: MLflow stores absolute places of artifacts, which a moved root leaves behind.

Whoever reads an artifact looks under the root first (`artifacts_of`), which writes nothing. Who
opens the record to write to it, or to serve it, corrects the places first (`correct_places`). Both
hold for the records of any version, because every version put a run's artifacts in the same folder
under the root.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ablate.core.files import turn
from ablate.core.workspace import Workspace

FOLDER = "/mlruns/artifacts/"
"""What stands between the root and the name of an experiment's folder."""

PLACES = {"runs": "artifact_uri", "logged_models": "artifact_location"}
"""Tables of MLflow's database, beside that of experiments, with the column that has a place."""


def artifacts_of(workspace: Workspace, run_id: str) -> Path | None:
    """The folder of a run's artifacts under the root; None if it is not there."""
    if not workspace.is_local:
        return None
    return next(workspace.artifacts.glob(f"*/{run_id}/artifacts"), None)


def correct_places(workspace: Workspace) -> int:
    """Point a local record to the artifacts under its own root; returns how many experiments moved.

    All places change in one transaction. A place stays if it is the same folder by another path, or
    if the artifacts are there and not under the root.
    """
    if not workspace.is_local or not workspace.record.exists() or not _moved(workspace):
        return 0
    with turn(workspace.record):
        moved = _moved(workspace)  # another process may have corrected them meanwhile
        with closing(sqlite3.connect(workspace.record, timeout=60)) as record, record:
            for experiment, old, new in moved:
                record.execute(
                    "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
                    (new, experiment),
                )
                for table, column in PLACES.items():
                    record.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
                        f" WHERE experiment_id = ? AND substr({column}, 1, ?) = ?",
                        (new, len(old) + 1, experiment, len(old), old),
                    )
    return len(moved)


def _moved(workspace: Workspace) -> list[tuple[int, str, str]]:
    """(experiment, recorded place, place under the root) where these differ.

    Opened to be written: a process that was killed in a write leaves a journal, which the next to
    open the record has to roll back before it can read.
    """
    with closing(sqlite3.connect(workspace.record, timeout=60)) as record:
        rows = record.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
    moved = []
    for experiment, old in rows:
        before, found, name = str(old).rpartition(FOLDER)
        new = f"{workspace.artifacts.as_uri()}/{name}"
        if found and before and old != new and _is_elsewhere(_path(old), _path(new)):
            moved.append((experiment, old, new))
    return moved


def _is_elsewhere(old: Path, new: Path) -> bool:
    """Whether the artifacts are not at the recorded place any more, or at the new one, too."""
    if not old.exists():
        return True
    return new.exists() and not old.samefile(new)


def _path(place: str) -> Path:
    return Path(unquote(urlsplit(place).path))
