"""Runs of a local record, read from its tables.

MLflow takes half a minute for the 12,000 runs of 3,000 trials, and seconds to be imported. Its
schema is not part of its interface: a test compares the results with those through MLflow, and what
cannot be read is left to MLflow.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ablate.tracking.vocabulary import KIND, KNOBS

OPEN = "lifecycle_stage = 'active'"
KINDS = f"SELECT run_uuid FROM tags WHERE key = '{KIND}' AND value = 'trial'"
NAMED = f"SELECT run_uuid FROM tags WHERE key = '{KNOBS}'"


class Info(NamedTuple):
    """What MLflow calls the info of a run."""

    run_id: str
    run_name: str
    status: str
    start_time: int | None  # milliseconds
    end_time: int | None


class Data(NamedTuple):
    """What MLflow calls the data of a run. A trial has no metrics, and parameters only if no tag
    has its knobs: its cells give the former, the tag the latter."""

    tags: dict[str, str]
    metrics: dict[str, float]
    params: dict[str, str]


class LocalRun(NamedTuple):
    """A run with the fields of MLflow's."""

    info: Info
    data: Data


class LocalRuns:
    """Reads the experiments and runs of one database file."""

    def __init__(self, database: Path) -> None:
        # opened to be written: what a killed process left in a journal has to be rolled back
        self._address = f"{database.absolute().as_uri()}?mode=rw"

    def experiments(self) -> list[tuple[str, str, Mapping[str, str]]]:
        """(id, name, tags), the newest first."""
        with closing(self._connect()) as connection:
            tags: dict[int, dict[str, str]] = defaultdict(dict)
            for number, key, value in connection.execute(
                "SELECT experiment_id, key, value FROM experiment_tags"
            ):
                tags[number][key] = value
            found = connection.execute(
                f"SELECT experiment_id, name FROM experiments WHERE {OPEN}"
                " ORDER BY last_update_time DESC, experiment_id"
            )
            return [(str(number), name, tags[number]) for number, name in found]

    def runs(self, experiment: str, tags: Mapping[str, str]) -> Sequence[LocalRun]:
        """The runs of an experiment that have these tags, oldest first."""
        chosen = f"SELECT run_uuid FROM runs WHERE experiment_id = ? AND {OPEN}"
        chosen += " AND run_uuid IN (SELECT run_uuid FROM tags WHERE key = ? AND value = ?)" * len(
            tags
        )
        which = [int(experiment), *(each for pair in tags.items() for each in pair)]
        with closing(self._connect()) as connection:
            connection.execute("BEGIN")  # all tables as they are at one moment
            found = connection.execute(
                "SELECT run_uuid, name, status, start_time, end_time FROM runs"
                f" WHERE run_uuid IN ({chosen}) ORDER BY start_time, run_uuid",
                which,
            )
            runs = {row[0]: LocalRun(Info(*row), Data({}, {}, {})) for row in found}
            of = f"WHERE run_uuid IN ({chosen})"
            for run, key, value in connection.execute(
                f"SELECT run_uuid, key, value FROM tags {of}", which
            ):
                runs[run].data.tags[key] = value
            for run, key, value, is_nan in connection.execute(
                f"SELECT run_uuid, key, value, is_nan FROM latest_metrics {of}"
                f" AND run_uuid NOT IN ({KINDS})",
                which,
            ):
                runs[run].data.metrics[key] = math.nan if is_nan else value
            for run, key, value in connection.execute(
                f"SELECT run_uuid, key, value FROM params {of} AND run_uuid IN ({KINDS})"
                f" AND run_uuid NOT IN ({NAMED})",
                which,
            ):
                runs[run].data.params[key] = value
        return list(runs.values())

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._address, uri=True, timeout=60)
