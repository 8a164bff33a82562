"""Reading studies from the record, for results and reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.coarseness import Coarseness
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.results import (
    CONFIRMATION,
    IMPORTANCE,
    LADDER,
    OLD_VOCABULARY,
    PROTOCOLS,
    VOCABULARY,
    Cell,
    Objective,
    StudyResults,
    Trial,
    Value,
    Vocabulary,
    summarise,
)
from ablate.results import STUDY as STUDY_FILE
from ablate.tracking.client import (
    BASELINE,
    COARSENESS,
    CONFIRMS,
    DONE,
    KIND,
    KNOBS,
    OLD_BASELINE,
    REASON,
    SEED,
    STUDY,
    TRAINING_SEED,
    WORKED,
    fetch,
    runs_where,
    state_of,
    trial_number,
)


class Reader:
    """Reads studies from one record."""

    def __init__(self, workspace: Workspace) -> None:
        self._no_study = f"no study has been run under {workspace.root}; start with: ablate list"
        if not workspace.has_record():  # a client would create an empty one
            raise UserError(self._no_study)
        self._client = MlflowClient(workspace.tracking_uri)

    def fetch(self, run_id: str, name: str) -> Path:
        """Download an artifact and return its local path."""
        try:
            return fetch(self._client, run_id, name)
        except (MlflowException, OSError):
            raise FileNotFoundError(f"run {run_id} has no {name}") from None

    def names(self) -> list[str]:
        """Names of the studies in the record, the last started first."""
        experiments = self._client.search_experiments()
        names = [e.name for e in experiments if e.name != "Default" and KIND not in e.tags]
        if not names:
            raise UserError(self._no_study)
        return names

    def latest(self, name: str, budget: str | None = None) -> StudyResults | None:
        """The study of that name that was last worked on; with `budget`, of that budget."""
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            return None
        where = f"tags.`{KIND}` = 'study'"
        where += f" and tags.`ablate.budget` = '{budget}'" if budget else ""
        studies = list(runs_where(self._client, experiment.experiment_id, where))
        for run in sorted(studies, key=lambda run: float(run.data.tags[WORKED]), reverse=True):
            try:
                return self._results(experiment.experiment_id, run)
            except (FileNotFoundError, json.JSONDecodeError):  # killed before it was written
                continue
        return None

    def _results(self, experiment: str, run: Run) -> StudyResults:
        tags, run_id = run.data.tags, run.info.run_id
        spec = self._document(run_id, STUDY_FILE)
        protocols = self._document(run_id, PROTOCOLS)
        runs = list(runs_where(self._client, experiment, f"tags.`{STUDY}` = '{tags[STUDY]}'"))
        again = {each.info.run_id for each in runs if CONFIRMS in each.data.tags}
        for each in runs:
            if each.info.run_id not in again:  # these may have more samples
                _require_protocols(each, protocols)
        trials = _merged(_trials([run for run in runs if run.info.run_id not in again]))
        ended = sum(trial.state != "running" for trial in trials) >= spec["trials"]
        return StudyResults(
            run_id=run_id,
            name=spec["name"],
            budget=spec["budget"],
            question=spec["question"],
            hash=tags["ablate.hash"],
            spec=spec,
            objectives=[Objective(o["metric"], o["direction"]) for o in spec["objectives"]],
            planned=spec["trials"],
            protocols=protocols,
            baselines=_baselines(run.data.metrics),
            tags={k: v for k, v in tags.items() if not k.startswith("mlflow.")},
            trials=trials,
            importance=self._at_the_end(run_id, IMPORTANCE),
            vocabulary=self._vocabulary(run_id),
            confirmations=_trials([run for run in runs if run.info.run_id in again]),
            confirmation=self._at_the_end(run_id, CONFIRMATION) if ended else {},
            ladder=self._at_the_end(run_id, LADDER),
        )

    def _at_the_end(self, run_id: str, name: str) -> dict[str, Any]:
        """A document that a study has when it is finished; empty before that."""
        try:
            return self._document(run_id, name)
        except FileNotFoundError:
            return {}

    def _vocabulary(self, run_id: str) -> Vocabulary:
        try:
            document = self._document(run_id, VOCABULARY)
        except FileNotFoundError:
            return OLD_VOCABULARY
        knobs = document.get("knobs", {})
        return Vocabulary(document["labels"], frozenset(document["leaking"]), knobs)

    def _document(self, run_id: str, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.fetch(run_id, name).read_text())
        return document


def _require_protocols(run: Run, protocols: Mapping[str, Mapping[str, Value]]) -> None:
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


def _trials(runs: list[Run]) -> list[Trial]:
    """The trials by number, each with its finished cells."""
    cells: dict[int, dict[int, Cell]] = {}
    for run in runs:
        if run.data.tags[KIND] == "cell" and state_of(run) in DONE:
            tags, trained = run.data.tags, run.data.tags.get(TRAINING_SEED)
            metrics, training_seed = dict(run.data.metrics), int(trained) if trained else None
            cell = Cell(run.info.run_id, int(tags[SEED]), state_of(run), metrics, training_seed)
            # a worker that lost its lease may have drawn it, too
            cells.setdefault(trial_number(run), {}).setdefault(cell.seed, cell)
    of_trials: dict[int, Run] = {}
    for run in runs:  # a message that was sent twice makes two runs: take the finished one
        number = trial_number(run) if run.data.tags[KIND] == "trial" else -1
        if number >= 0 and (number not in of_trials or state_of(run) in DONE):
            of_trials[number] = run
    return [
        _trial(run, list(cells.get(number, {}).values()))
        for number, run in sorted(of_trials.items())
    ]


def _merged(trials: list[Trial]) -> list[Trial]:
    """Add the cells of a repeated configuration to its first complete trial."""
    firsts: dict[str, int] = {}
    merged = list(trials)
    for index, trial in enumerate(trials):
        if trial.state != "complete":
            continue
        first = firsts.setdefault(str(sorted(trial.params.items())), index)
        if first == index:
            continue
        original = merged[first]
        known = {cell.seed for cell in original.cells}
        all_cells = [*original.cells, *(c for c in trial.cells if c.seed not in known)]
        merged[first] = _summarised(original._replace(cells=all_cells))
        reason = f"more seeds of trial {original.number}"
        merged[index] = trial._replace(state="repeated", reason=reason)
    return merged


def _summarised(trial: Trial) -> Trial:
    """The trial with the means and intervals of its cells."""
    means, intervals = summarise([cell.metrics for cell in trial.cells], trial.training_seeds)
    return trial._replace(metrics=means, intervals=intervals)


def _trial(run: Run, cells: list[Cell]) -> Trial:
    trial = Trial(
        run_id=run.info.run_id,
        number=trial_number(run),
        state=state_of(run),
        params=_knobs(run),
        metrics={},
        intervals={},
        reason=run.data.tags.get(REASON) or None,
        cells=sorted(cells, key=lambda cell: cell.seed),
        coarseness=_coarseness(run),
    )
    return _summarised(trial)


def _coarseness(run: Run) -> Coarseness | None:
    """The coarseness of a trial's run; None if it is not literal, and in older records."""
    if COARSENESS not in run.data.tags:
        return None
    numbers = json.loads(run.data.tags[COARSENESS])
    return Coarseness(**numbers | {"band": tuple(numbers["band"])})


def _knobs(run: Run) -> dict[str, Value]:
    """The knobs of a trial's run."""
    if KNOBS in run.data.tags:
        knobs: dict[str, Value] = json.loads(run.data.tags[KNOBS])
        return knobs
    return {k: _typed(v) for k, v in run.data.params.items()}  # records without the tag


def _typed(text: str) -> Value:
    """A parameter as a number if it is one: MLflow stores text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
