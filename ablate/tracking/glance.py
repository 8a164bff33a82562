"""How far studies are, read from a local record without importing MLflow.

`ablate list` should answer at once, and MLflow takes seconds to import. So this reads the tables of
MLflow's SQLite file directly. Its schema is not part of MLflow's interface: a test compares the
answer with the `Reader`'s, and what cannot be read is left to the `Reader`.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from ablate.core.workspace import Workspace
from ablate.results import STUDY as STUDY_FILE
from ablate.tracking.vocabulary import worked

RUNS = """
SELECT e.name, r.run_uuid, r.status, t.key, t.value
FROM runs r JOIN experiments e USING (experiment_id) JOIN tags t USING (run_uuid)
WHERE r.lifecycle_stage = 'active' AND e.lifecycle_stage = 'active'
AND t.key IN ('ablate.kind', 'ablate.study', 'ablate.trial', 'ablate.budget', 'ablate.worked',
              'ablate.confirms')
"""
ENDED = ("FINISHED", "FAILED")
"""Statuses of trials that have ended; RUNNING and KILLED ones will be continued."""

Tags = dict[str, str]


def progress(workspace: Workspace) -> dict[str, str] | None:
    """Study -> "quick: 3 of 24 trials", of the budget last worked on; None if it cannot be read."""
    try:
        runs = _runs(workspace.record)
    except sqlite3.Error:
        return None
    ended: dict[str, set[str]] = defaultdict(set)  # key of a study -> numbers of its trials
    studies: list[tuple[str, str, Tags]] = []  # (name, run, tags)
    for (name, run_id, status), tags in runs.items():
        if "ablate.confirms" in tags:
            continue
        if tags.get("ablate.kind") == "trial" and status in ENDED:
            ended[tags.get("ablate.study", "")].add(tags.get("ablate.trial", ""))
        elif tags.get("ablate.kind") == "study":
            studies.append((name, run_id, tags))
    states: dict[str, str] = {}
    for name, run_id, tags in sorted(studies, key=lambda each: worked(each[2])):
        planned = _planned(workspace.artifacts / name / run_id / "artifacts" / STUDY_FILE)
        if planned is not None:  # else it was killed as it began
            done = len(ended[tags.get("ablate.study", "?")])
            states[name] = f"{tags.get('ablate.budget', '?')}: {done} of {planned} trials"
    return states


def _runs(database: Path) -> dict[tuple[str, str, str], Tags]:
    """(experiment, run, status) -> tags."""
    found: dict[tuple[str, str, str], Tags] = defaultdict(dict)
    with closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    ) as connection:
        for name, run_id, status, key, value in connection.execute(RUNS):
            found[name, run_id, status][key] = value
    return found


def _planned(file: Path) -> int | None:
    try:
        return int(json.loads(file.read_text())["trials"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
