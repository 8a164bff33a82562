"""Runs of a record, read through MLflow: of a server, or of a file that only MLflow can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mlflow.tracking import MlflowClient

from ablate.tracking.client import TROUBLES, Run, fetch, runs_where


class ServedRuns:
    """Reads the experiments and runs at one tracking URI."""

    def __init__(self, uri: str) -> None:
        self._client = MlflowClient(uri)

    def experiments(self) -> list[tuple[str, str, Mapping[str, str]]]:
        """(id, name, tags), the newest first."""
        found = self._client.search_experiments()
        return [(str(each.experiment_id), each.name, each.tags) for each in found]

    def runs(self, experiment: str, tags: Mapping[str, str]) -> Sequence[Run]:
        """The runs of an experiment that have these tags, oldest first."""
        where = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        return list(runs_where(self._client, experiment, where))

    def fetch(self, run_id: str, name: str) -> Path | None:
        """A downloaded artifact's path; None if there is none."""
        try:
            return fetch(self._client, run_id, name)
        except TROUBLES:
            return None
