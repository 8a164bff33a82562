"""Reading studies from the record, for results and reports."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ablate.core.errors import UserError, first_line
from ablate.core.file_names import checked_name
from ablate.core.workspace import Workspace
from ablate.results import (
    COMPARISONS,
    CONFIRMATION,
    IMPORTANCE,
    LADDER,
    PROTOCOLS,
    VOCABULARY,
    Objective,
    StudyResults,
    Value,
    Vocabulary,
)
from ablate.results import STUDY as STUDY_FILE
from ablate.tracking.documents import (
    checked_study,
    checked_table,
    checked_tables,
    checked_vocabulary,
)
from ablate.tracking.local_runs import LocalRuns
from ablate.tracking.relocation import artifacts_of
from ablate.tracking.times import at_work, times
from ablate.tracking.trials import merged, trials_of
from ablate.tracking.vocabulary import (
    BASELINE,
    BUDGET,
    CONFIRMS,
    KIND,
    OLD_BASELINE,
    STATE,
    STUDY,
    RecordedRun,
    worked,
)

if TYPE_CHECKING:
    from ablate.tracking.served_runs import ServedRuns


WRONG = (KeyError, TypeError, AttributeError, RecursionError, ValueError, ArithmeticError)
"""Exceptions at what no version of this package wrote."""


class Runs(Protocol):
    """What a reader asks of a record: of a local file, or of MLflow."""

    def experiments(self) -> list[tuple[str, str, Mapping[str, str]]]: ...
    def runs(self, experiment: str, tags: Mapping[str, str]) -> Sequence[RecordedRun]: ...


class Reader:
    """Reads studies from one record."""

    def __init__(self, workspace: Workspace) -> None:
        self._no_study = f"no study has been run under {workspace.root}; start with: ablate list"
        if not workspace.has_record():  # a client would create an empty one
            raise UserError(self._no_study)
        self._workspace = workspace
        self._runs: Runs = LocalRuns(workspace.record) if workspace.is_local else self._served

    @cached_property
    def _served(self) -> ServedRuns:
        """Through MLflow, which takes seconds to import."""
        from ablate.tracking.served_runs import ServedRuns

        return ServedRuns(self._workspace.tracking_uri)

    def _experiments(self) -> list[tuple[str, str, Mapping[str, str]]]:
        try:
            return self._runs.experiments()
        except sqlite3.Error:  # tables of another version, or none
            self._runs = self._served
            return self._runs.experiments()

    def fetch(self, run_id: str, name: str) -> Path:
        """An artifact's local path: under the root, or downloaded."""
        folder = artifacts_of(self._workspace, checked_name(run_id, "the record: a run's id"))
        file = folder / name if folder else self._served.fetch(run_id, name)
        if file is None or not file.is_file():
            raise FileNotFoundError(f"run {run_id} has no {name}")
        return file

    def names(self) -> list[str]:
        """Names of the studies in the record, the last started first."""
        names = [n for _, n, tags in self._experiments() if n != "Default" and KIND not in tags]
        if not names:
            raise UserError(self._no_study)
        return names

    def latest(self, name: str, budget: str | None = None) -> StudyResults | None:
        """The study of that name that was last worked on; with `budget`, of that budget."""
        experiment = next((number for number, n, _ in self._experiments() if n == name), None)
        if experiment is None:
            return None
        tags = {KIND: "study"} | ({BUDGET: budget} if budget else {})
        studies = self._runs.runs(experiment, tags)
        for run in sorted(studies, key=lambda run: worked(run.data.tags), reverse=True):
            try:
                return self._results(experiment, run)
            except (FileNotFoundError, json.JSONDecodeError):  # killed before it was written
                continue
            except WRONG as error:
                wrong = f"{type(error).__name__}: {first_line(error)[:80]}"
                raise UserError(f"run {run.info.run_id}: not a study's record ({wrong})") from None
        return None

    def _results(self, experiment: str, run: RecordedRun) -> StudyResults:
        tags, run_id = run.data.tags, run.info.run_id
        spec = checked_study(self._document(run_id, STUDY_FILE), f"run {run_id}")
        protocols = checked_tables(self._document(run_id, PROTOCOLS), f"run {run_id}", PROTOCOLS)
        runs = self._runs.runs(experiment, {STUDY: tags[STUDY]})
        again = {each.info.run_id for each in runs if CONFIRMS in each.data.tags}
        for each in runs:
            if each.info.run_id not in again:  # these may have more samples
                _require_protocols(each, protocols)
        trials = merged(trials_of([run for run in runs if run.info.run_id not in again]))
        ended = sum(trial.state != "running" for trial in trials) >= spec["trials"]
        return StudyResults(
            run_id=run_id,
            name=checked_name(spec["name"], f"run {run_id}: its study"),  # a folder in reports/
            budget=checked_name(spec["budget"], f"run {run_id}: its budget"),
            question=spec["question"],
            hash=tags["ablate.hash"],
            spec=spec,
            objectives=[Objective(o["metric"], o["direction"]) for o in spec["objectives"]],
            planned=spec["trials"],
            protocols=protocols,
            baselines=_baselines(run.data.metrics),
            tags=_tags(run.data.tags) | times(run),
            trials=trials,
            importance=self._at_the_end(run_id, IMPORTANCE),
            vocabulary=self._vocabulary(run_id),
            confirmations=trials_of([run for run in runs if run.info.run_id in again]),
            confirmation=self._at_the_end(run_id, CONFIRMATION) if ended else {},
            ladder=self._at_the_end(run_id, LADDER),
            comparisons=self._at_the_end(run_id, COMPARISONS),
            at_work=at_work(_spans(runs)),
        )

    def _at_the_end(self, run_id: str, name: str) -> dict[str, Any]:
        """A document that a study has when it is finished; empty before that."""
        try:
            return checked_table(self._document(run_id, name), f"run {run_id}", name)
        except FileNotFoundError:
            return {}

    def _vocabulary(self, run_id: str) -> Vocabulary:
        return checked_vocabulary(self._at_the_end(run_id, VOCABULARY), f"run {run_id}")

    def _document(self, run_id: str, name: str) -> Any:
        return json.loads(self.fetch(run_id, name).read_text())


def _spans(runs: Iterable[RecordedRun]) -> Iterator[tuple[int | None, int | None]]:
    """When each cell began and ended."""
    for run in runs:
        if run.data.tags[KIND] == "cell":
            yield run.info.start_time, run.info.end_time


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Ours, without MLflow's own and without the state, which is the status."""
    return {k: v for k, v in tags.items() if not k.startswith("mlflow.") and k != STATE}


def _require_protocols(run: RecordedRun, protocols: Mapping[str, Mapping[str, Value]]) -> None:
    """Raise an error if a run was measured by another protocol than its study."""
    for tag, hash in run.data.tags.items():
        metric = tag.removeprefix("protocol.")
        expected = protocols.get(metric, {}).get("hash")
        if tag != metric and expected not in (None, hash):
            raise UserError(
                f"{run.info.run_name}: its {metric} was measured by protocol {hash},"
                f" the study's by {expected}; they cannot be ranked together"
            )


def _baselines(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Baseline -> metric -> value, from the metrics of the study's run."""
    baselines: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        if key.startswith((BASELINE, OLD_BASELINE)):
            _, name, metric = key.split("/")
            baselines.setdefault(name, {})[metric] = value
    return baselines
