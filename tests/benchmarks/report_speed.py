"""How long do the commands that read a record take with a large study in it?

    python -m tests.benchmarks.report_speed [TRIALS] [SEEDS] [ROOT]        (3000 3)

Multiplies the trials of `digits-adls --budget smoke` in a copy of its record: other knobs, other
values, the same pictures. Then runs `list`, `results` and `report`, and prints the seconds of each,
and of processor time. With 3,000 trials they are to take less than 1, 5 and 20 seconds of an idle
core. Without ROOT, where the study was run, it runs it first.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ablate.core.workspace import Workspace

STUDY, BUDGET = "digits-adls", "smoke"
CLONED = ("tags", "params", "metrics", "latest_metrics")
"""Tables with rows of a run."""


class Copier:
    """Copies runs of a record under new numbers."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._made = 0

    def runs(self, kind: str, study: str) -> list[str]:
        """The runs of a kind in a study, oldest first, without its confirmations."""
        query = """SELECT r.run_uuid FROM runs r
            JOIN tags k ON k.run_uuid = r.run_uuid AND k.key = 'ablate.kind' AND k.value = ?
            JOIN tags s ON s.run_uuid = r.run_uuid AND s.key = 'ablate.study' AND s.value LIKE ?
            LEFT JOIN tags c ON c.run_uuid = r.run_uuid AND c.key = 'ablate.confirms'
            WHERE c.value IS NULL ORDER BY r.start_time"""
        found = self._database.execute(query, (kind, f"{study}/{BUDGET}/%"))
        return [row[0] for row in found]

    def copy(self, run: str, tags: dict[str, str], factor: float) -> str:
        """A new run with these tags and its metrics multiplied; the same artifacts."""
        self._made += 1
        name = f"{self._made:032x}"
        self._insert("runs", run, lambda row: {**row, "run_uuid": name})
        for table in CLONED:

            def changed(row: dict[str, Any], table: str = table) -> dict[str, Any]:
                if table == "tags":
                    row["value"] = tags.get(row["key"], row["value"])
                elif table != "params" and row["key"] in ("kid", "fid"):
                    row["value"] *= factor
                return {**row, "run_uuid": name}

            self._insert(table, run, changed)
        return name

    def _insert(
        self, table: str, run: str, changed: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        found = self._database.execute(f"SELECT * FROM {table} WHERE run_uuid = ?", (run,))
        names = [column[0] for column in found.description]
        rows = [tuple(changed(dict(zip(names, row, strict=True))).values()) for row in found]
        places = ", ".join("?" * len(names))
        self._database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def multiply(root: Path, trials: int, seeds: int) -> None:
    """Give the study so many trials of so many seeds."""
    random = np.random.default_rng(0)
    with closing(sqlite3.connect(Workspace(root).record)) as database, database:
        copier = Copier(database)
        (trial, *others), (cell, *_) = copier.runs("trial", STUDY), copier.runs("cell", STUDY)
        query = "SELECT value FROM tags WHERE run_uuid = ? AND key = 'ablate.knobs'"
        knobs = json.loads(database.execute(query, (trial,)).fetchone()[0])
        for number in range(1 + len(others), trials):
            chi, r, sigma = random.uniform([0.99, 0.5, 0.5], [1.0, 1.0, 2.0])
            own = {"chi": float(chi), "r": float(r), "sigma": float(sigma), "n": number % 3}
            factor = float(random.uniform(0.5, 5))
            tags = {"ablate.trial": str(number), "ablate.knobs": json.dumps(knobs | own)}
            parent = copier.copy(trial, tags, factor)
            for seed in range(seeds):
                tags = {"ablate.trial": str(number), "ablate.seed": str(seed)}
                copier.copy(cell, {**tags, "mlflow.parentRunId": parent}, factor)
    for file in Workspace(root).artifacts.rglob("study.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"trials": trials}))


def main(trials: int, seeds: int, root: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "root")
        if root:
            shutil.copytree(Path(root) / "mlruns", place / "mlruns")
        else:
            arguments = ["study", STUDY, "--budget", BUDGET]
            command = [sys.executable, "-m", "ablate", "--root", str(place), *arguments]
            subprocess.run(command, check=True)
        multiply(place, trials, seeds)
        for arguments in (["list", STUDY], ["results", STUDY], ["report", STUDY]):
            took, used = timed(place, *arguments)
            line = f"{trials} trials of {seeds} seeds: ablate {' '.join(arguments)}"
            print(f"{line} took {took:.1f} s ({used:.1f} s of CPU)")


def timed(root: Path, *arguments: str) -> tuple[float, float]:
    """Seconds of a command, and of processor time."""
    command = [sys.executable, "-m", "ablate", "--root", str(root), *arguments]
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - began, os.times()
    user, system = (after[i] - before[i] for i in (2, 3))  # of children
    return took, user + system


if __name__ == "__main__":
    more = sys.argv[1:]
    main(int(more[0]) if more else 3000, int(more[1]) if len(more) > 1 else 3, "".join(more[2:3]))
