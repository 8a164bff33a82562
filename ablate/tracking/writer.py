"""Writing the record: finding before making is what lets it be taken up again."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mlflow import Image
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.errors import hide_secrets
from ablate.core.files import make_whole
from ablate.core.workspace import Workspace
from ablate.results import Value
from ablate.tracking.client import (
    BASELINE,
    DONE,
    KIND,
    KNOBS,
    OLD_BASELINE,
    PARENT,
    REASON,
    SEED,
    STATE,
    STATUS,
    STUDY,
    TRAINING,
    TRIAL,
    WORKED,
    Knobs,
    Tags,
    fetch,
    runs_where,
    state_of,
)
from ablate.tracking.transaction import at_once


class Tracker:
    """Writes one study or training. Finding before making is what lets it be taken up again."""

    def __init__(self, workspace: Workspace) -> None:
        self.uri = workspace.tracking_uri
        self._artifacts: Path | None = None
        if workspace.is_local:
            self._artifacts = workspace.artifacts
            make_whole(workspace.record, _make_tables)
        self.client = MlflowClient(self.uri)

    def experiment(self, name: str, tags: Tags | None = None) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        location = None if self._artifacts is None else (self._artifacts / name).as_uri()
        kind = {"mlflow.experimentKind": "custom_model_development"}  # the UI's default is GenAI
        try:
            return str(self.client.create_experiment(name, location, kind | dict(tags or {})))
        except MlflowException:  # another worker was quicker
            found = self.client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)

    def open_study(
        self, name: str, key: str, tags: Mapping[str, str], documents: Mapping[str, Any]
    ) -> StudyRun:
        """The study's run, made now or found again; `documents` become JSON artifacts."""
        found = self.find_study(name, key)
        tags = {**tags, KIND: "study", STUDY: key, WORKED: _now()}
        if found is None:
            experiment = self.experiment(name)
            run = self.client.create_run(experiment, tags=tags, run_name=key)
            found = StudyRun(self, experiment, run.info.run_id, key)
        else:
            self.reopen(found.run_id, tags)
        for file, document in documents.items():
            found.log_document(file, document)
        return found

    def find_study(self, name: str, key: str) -> StudyRun | None:
        """The study's run, if there is one."""
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            return None
        where = f"tags.`{STUDY}` = '{key}' and tags.`{KIND}` = 'study'"
        runs = list(runs_where(self.client, experiment.experiment_id, where))
        mine = (StudyRun(self, experiment.experiment_id, r.info.run_id, key) for r in runs)
        return next(mine, None)

    def open_training(self, name: str, what: str, params: Knobs, tags: Tags) -> str:
        """The run of a training, told apart by `what`: the last one if it did not come to its
        end, else a new one."""
        key = hashlib.sha256(what.encode()).hexdigest()[:16]
        experiment = self.experiment(f"train-{name}", {KIND: "training"})
        runs = list(runs_where(self.client, experiment, f"tags.`{TRAINING}` = '{key}'"))
        if runs and runs[-1].info.status != "FINISHED":
            run_id = str(runs[-1].info.run_id)
            self.reopen(run_id, tags)
            return run_id
        tags = {**tags, KIND: "training", TRAINING: key}
        run = self.client.create_run(experiment, tags=tags, run_name=f"{name} {key}")
        self.log(run.info.run_id, params=params)
        return str(run.info.run_id)

    def open_evaluation(self, name: str, tags: Tags) -> str:
        experiment = self.experiment("evaluations", {KIND: "evaluation"})
        tags = {**tags, KIND: "evaluation"}
        return str(self.client.create_run(experiment, tags=tags, run_name=name).info.run_id)

    def reopen(self, run_id: str, tags: Tags) -> None:
        """A run that was stopped goes on; how it was stopped is of no interest any more."""
        self.client.update_run(run_id, status="RUNNING")
        self.log(run_id, tags={**tags, STATE: "", REASON: ""})

    def log(
        self,
        run_id: str,
        metrics: Mapping[str, float] | None = None,
        params: Mapping[str, Value] | None = None,
        tags: Mapping[str, str] | None = None,
        step: int = 0,
    ) -> None:
        now = int(time.time() * 1000)
        self.client.log_batch(
            run_id,
            [Metric(k, v, now, step) for k, v in (metrics or {}).items()],
            [Param(k, str(v)) for k, v in (params or {}).items()],
            [RunTag(k, v) for k, v in (tags or {}).items()],
        )

    def log_picture(self, run_id: str, path: Path, step: int = 0) -> None:
        """As a file, and as an image that the UI shows side by side over runs and steps."""
        self.client.log_artifact(run_id, str(path))
        image = Image(str(path))
        self.client.log_image(run_id, image, key=path.stem, step=step, synchronous=True)

    @contextmanager
    def closing(self, run_id: str) -> Iterator[None]:
        """Whatever ends the block, the run says so."""
        try:
            yield
        except KeyboardInterrupt:
            self.close(run_id, "interrupted", "Ctrl-C")
            raise
        except BaseException as error:
            self.close(run_id, "failed", f"{type(error).__name__}: {error}")
            raise
        self.close(run_id, "complete")

    def close(
        self,
        run_id: str,
        state: str,
        reason: str | None = None,
        metrics: Mapping[str, float] | None = None,
        params: Knobs | None = None,
    ) -> None:
        """With the last there is to say, in one message; the status comes after it."""
        tags = {} if state in STATUS else {STATE: state}
        if reason:
            tags[REASON] = hide_secrets(reason)[:5000]
        with at_once(self.client):
            if metrics or params or tags:
                self.log(run_id, metrics, params, tags)
            self.client.set_terminated(run_id, STATUS.get(state, "FAILED"))


def _now() -> str:
    return f"{time.time():.3f}"


def _make_tables(file: Path) -> None:
    """MLflow makes them one by one, and cannot go on with half of them."""
    MlflowClient(f"sqlite:///{file}").search_experiments(max_results=1)


class DoneCell(NamedTuple):
    """A cell that was run before."""

    run_id: str
    state: str  # complete, diverged or pruned
    metrics: dict[str, float]
    reason: str | None


class PastCells(NamedTuple):
    """By seed."""

    done: dict[int, DoneCell]  # brought to their end
    deaths: Counter[int]  # how often a process was killed at it


NOTHING_PAST = PastCells({}, Counter())


def _done(run: Run) -> DoneCell | None:
    state, reason = state_of(run), run.data.tags.get(REASON) or None
    if state not in DONE:
        return None
    return DoneCell(run.info.run_id, state, dict(run.data.metrics), reason)


KILLED = "its process was killed"


class StudyRun:
    """An open study: hands out trial and cell runs, and finds those that were there before."""

    def __init__(self, tracker: Tracker, experiment: str, run_id: str, key: str) -> None:
        self.run_id = run_id
        self.log, self.close, self.log_picture = tracker.log, tracker.close, tracker.log_picture
        self._reopen = tracker.reopen
        self._client, self._experiment, self._key = tracker.client, experiment, key

    def is_whole(self) -> bool:
        """Whether it was brought to its end before: its status is the last thing to be set."""
        return state_of(self._client.get_run(self.run_id)) == "complete"

    def touch(self) -> None:
        """It is the one last worked on, though there was nothing to do."""
        self.log(self.run_id, tags={WORKED: _now()})

    def has_trial(self, number: int) -> bool:
        return next(self._trial_runs(number, "trial"), None) is not None

    def close_all(self, state: str, reason: str | None = None) -> None:
        """The study's run says how it ended, and nothing under it is left RUNNING."""
        for run in list(self._runs("attributes.status = 'RUNNING'")):
            if run.info.run_id != self.run_id:
                self.close(run.info.run_id, "interrupted", "its process was stopped")
        self.close(self.run_id, state, reason)

    def _runs(self, where: str) -> Iterator[Run]:
        return runs_where(
            self._client, self._experiment, f"tags.`{STUDY}` = '{self._key}' and {where}"
        )

    def has_baselines(self) -> bool:
        metrics = self._client.get_run(self.run_id).data.metrics
        return any(name.startswith((BASELINE, OLD_BASELINE)) for name in metrics)

    def log_baselines(self, found: Mapping[str, Mapping[str, float]]) -> None:
        flat = {
            f"{BASELINE}{name}/{metric}": value
            for name, metrics in found.items()
            for metric, value in metrics.items()
        }
        self.log(self.run_id, flat)

    def at_once(self) -> AbstractContextManager[None]:
        """One transaction for all that the block opens, or for all that it closes."""
        return at_once(self._client)

    def open_trial(self, number: int, knobs: Knobs, tags: Tags) -> str:
        tags = {**tags, TRIAL: str(number), KNOBS: json.dumps(dict(knobs))}
        return self._create("trial", f"trial {number}", self.run_id, tags)

    def reopen_trial(self, number: int, knobs: Knobs, tags: Tags) -> str:
        """One that another worker may have begun."""
        found = next(self._trial_runs(number, "trial"), None)
        if found is None:
            return self.open_trial(number, knobs, tags)
        self._reopen(found.info.run_id, tags)
        return str(found.info.run_id)

    def past_cells(self, number: int) -> PastCells:
        """What other workers left of a trial; what they left in the middle is closed."""
        past = PastCells({}, Counter())
        for run in list(self._trial_runs(number, "cell")):
            seed = int(run.data.tags[SEED])
            if run.info.status == "RUNNING":
                self.close(run.info.run_id, "interrupted", KILLED)
                past.deaths[seed] += 1
            elif (cell := _done(run)) is not None:
                past.done.setdefault(seed, cell)
            elif run.data.tags.get(REASON) == KILLED:
                past.deaths[seed] += 1
        return past

    def cell_run(self, number: int, seed: int) -> str:
        """The run of a cell that is done."""
        runs = self._trial_runs(number, "cell")
        return next(
            str(run.info.run_id)
            for run in runs
            if run.data.tags[SEED] == str(seed) and _done(run) is not None
        )

    def _trial_runs(self, number: int, kind: str) -> Iterator[Run]:
        return self._runs(f"tags.`{TRIAL}` = '{number}' and tags.`{KIND}` = '{kind}'")

    def open_cell(self, trial_run: str, number: int, seed: int, tags: Tags) -> str:
        tags = {**tags, TRIAL: str(number), SEED: str(seed)}
        return self._create("cell", f"trial {number} seed {seed}", trial_run, tags)

    def _create(self, kind: str, name: str, parent: str, tags: Tags) -> str:
        tags = {**tags, KIND: kind, STUDY: self._key, PARENT: parent}
        with at_once(self._client):
            run = self._client.create_run(self._experiment, tags=tags, run_name=name)
        return str(run.info.run_id)

    def log_files(self, run_id: str, folder: Path) -> None:
        self._client.log_artifacts(run_id, str(folder))

    def fetch(self, run_id: str, name: str) -> Path:
        return fetch(self._client, run_id, name)

    def log_document(self, name: str, document: object) -> None:
        self._client.log_text(self.run_id, json.dumps(document, indent=1), name)
