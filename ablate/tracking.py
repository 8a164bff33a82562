"""The record of studies and trainings in MLflow: the one module that knows it.

A study is a run, its trials are runs nested in it, their cells runs nested in those. A training is
one run, in an experiment of its own. A run's status is set last, so what is FINISHED is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# MLflow announces every table it makes and draws a bar for every file it reads: set before import
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from mlflow import Image
from mlflow.entities import Metric, Param, Run, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.errors import UserError
from ablate.home import Home
from ablate.interrupts import shielded
from ablate.record import Cell, Objective, StudyRecord, Trial, Value, summarise

KIND, STUDY, TRIAL, SEED = "ablate.kind", "ablate.study", "ablate.trial", "ablate.seed"
STATE, REASON = "ablate.state", "ablate.reason"
WORKED = "ablate.worked"  # when a process last took it up
PARENT = "mlflow.parentRunId"
STATUS = {"complete": "FINISHED", "interrupted": "KILLED"}  # any other state is FAILED
YARDSTICK = "yardstick/"
TRAINING = "ablate.training"

Knobs = Mapping[str, Value]
Tags = Mapping[str, str]


class Tracker:
    """Writes one study or training. Finding before making is what lets it be taken up again."""

    def __init__(self, home: Home) -> None:
        home.mlruns.mkdir(parents=True, exist_ok=True)
        self.client = MlflowClient(home.tracking_uri)
        self._artifacts = home.artifacts

    def experiment(self, name: str, tags: Tags | None = None) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        location = (self._artifacts / name).as_uri()
        kind = {"mlflow.experimentKind": "custom_model_development"}  # the UI's default is GenAI
        return str(self.client.create_experiment(name, location, kind | dict(tags or {})))

    def open_study(
        self, name: str, key: str, tags: Mapping[str, str], documents: Mapping[str, Any]
    ) -> StudyRun:
        """The study's run, made now or found again; `documents` become JSON artifacts."""
        experiment = self.experiment(name)
        runs = list(_runs(self.client, experiment, f"tags.`{STUDY}` = '{key}'"))
        mine = [run for run in runs if run.data.tags[KIND] == "study"]
        tags = {**tags, KIND: "study", STUDY: key, WORKED: f"{time.time():.3f}"}
        if mine:
            run_id = mine[0].info.run_id
            self.client.update_run(run_id, status="RUNNING")
            self.log(run_id, tags=tags)
        else:
            run_id = self.client.create_run(experiment, tags=tags, run_name=key).info.run_id
        for file, document in documents.items():
            self.client.log_text(run_id, json.dumps(document, indent=1), file)
        return StudyRun(self, experiment, run_id, key, runs)

    def close_finished(self, name: str, key: str) -> None:
        """A study that was killed after its last trial: nothing is left but to say so."""
        for run in _runs(self.client, self.experiment(name), f"tags.`{STUDY}` = '{key}'"):
            if run.data.tags[KIND] == "study" and run.info.status != "FINISHED":
                self.close(run.info.run_id, "complete")

    def open_training(self, name: str, what: str, params: Knobs, tags: Tags) -> str:
        """The run of a training, told apart by `what`: the last one if it did not come to its
        end, else a new one."""
        key = hashlib.sha256(what.encode()).hexdigest()[:16]
        experiment = self.experiment(f"train-{name}", {KIND: "training"})
        runs = list(_runs(self.client, experiment, f"tags.`{TRAINING}` = '{key}'"))
        if runs and runs[-1].info.status != "FINISHED":
            run_id = str(runs[-1].info.run_id)
            self.client.update_run(run_id, status="RUNNING")
            self.log(run_id, tags=tags)
            return run_id
        tags = {**tags, KIND: "training", TRAINING: key}
        run = self.client.create_run(experiment, tags=tags, run_name=f"{name} {key}")
        self.log(run.info.run_id, params=params)
        return str(run.info.run_id)

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

    def close(self, run_id: str, state: str, reason: str | None = None) -> None:
        self.log(run_id, tags={STATE: state, REASON: reason[:5000] if reason else ""})
        self.client.set_terminated(run_id, STATUS.get(state, "FAILED"))


class StudyRun:
    """An open study: hands out trial and cell runs, and knows what was done before."""

    def __init__(
        self, tracker: Tracker, experiment: str, run_id: str, key: str, runs: list[Run]
    ) -> None:
        self.run_id = run_id
        self.log, self.close, self.log_picture = tracker.log, tracker.close, tracker.log_picture
        self._tracker = tracker
        self._client, self._experiment, self._key = tracker.client, experiment, key
        self._trials = {_number(run): run for run in runs if run.data.tags[KIND] == "trial"}
        self._done: dict[tuple[int, int], Run] = {}
        for run in (run for run in runs if run.data.tags[KIND] == "cell"):
            if run.info.status == "RUNNING":
                self.close(run.info.run_id, "interrupted", "its process was killed")
            elif run.data.tags.get(STATE) in ("complete", "diverged"):
                self._done[_number(run), int(run.data.tags[SEED])] = run

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Whatever ends the block, the study's run says so; nothing under it is left RUNNING."""
        with self._tracker.closing(self.run_id):
            try:
                yield
            except BaseException:
                with shielded():
                    self._close_what_runs()
                raise

    def _close_what_runs(self) -> None:
        where = f"tags.`{STUDY}` = '{self._key}' and attributes.status = 'RUNNING'"
        for run in list(_runs(self._client, self._experiment, where)):
            if run.info.run_id != self.run_id:
                self.close(run.info.run_id, "interrupted", "the study was stopped")

    @contextmanager
    def failing(self, run_id: str) -> Iterator[None]:
        """A cell that raises says why."""
        try:
            yield
        except Exception as error:
            self.close(run_id, "failed", f"{type(error).__name__}: {error}")
            raise

    def has_yardsticks(self) -> bool:
        metrics = self._client.get_run(self.run_id).data.metrics
        return any(name.startswith(YARDSTICK) for name in metrics)

    def log_yardsticks(self, found: Mapping[str, Mapping[str, float]]) -> None:
        flat = {
            f"{YARDSTICK}{name}/{metric}": value
            for name, metrics in found.items()
            for metric, value in metrics.items()
        }
        self.log(self.run_id, flat)

    def open_trial(self, number: int, knobs: Knobs, tags: Tags) -> str:
        if number in self._trials:
            run_id = str(self._trials[number].info.run_id)
            self._client.update_run(run_id, status="RUNNING")
            self.log(run_id, params=knobs, tags=tags)  # a kill may have come before these
            return run_id
        tags = {**tags, TRIAL: str(number)}
        return self._create("trial", f"trial {number}", self.run_id, knobs, tags)

    def done_cell(self, number: int, seed: int) -> tuple[dict[str, float], str | None] | None:
        """(metrics, reason of divergence) of a cell that was run before, or None."""
        run = self._done.get((number, seed))
        if run is None:
            return None
        return dict(run.data.metrics), run.data.tags.get(REASON) or None

    def open_cell(self, trial_run: str, number: int, seed: int, knobs: Knobs, tags: Tags) -> str:
        tags = {**tags, TRIAL: str(number), SEED: str(seed)}
        knobs = {**knobs, "seed": seed}
        return self._create("cell", f"trial {number} seed {seed}", trial_run, knobs, tags)

    def _create(self, kind: str, name: str, parent: str, knobs: Knobs, tags: Tags) -> str:
        tags = {**tags, KIND: kind, STUDY: self._key, PARENT: parent}
        run = self._client.create_run(self._experiment, tags=tags, run_name=name)
        run_id = str(run.info.run_id)
        self.log(run_id, params=knobs)
        return run_id

    def log_files(self, run_id: str, folder: Path) -> None:
        self._client.log_artifacts(run_id, str(folder))


def _number(run: Run) -> int:
    return int(run.data.tags[TRIAL])


def _runs(client: MlflowClient, experiment: str, where: str = "") -> Iterator[Run]:
    token = None
    while True:
        page = client.search_runs(
            [experiment], where, ViewType.ACTIVE_ONLY, 1000, ["attributes.start_time ASC"], token
        )
        yield from page
        if not (token := page.token):
            return


class Reader:
    """Reads studies back, for results and reports."""

    def __init__(self, home: Home) -> None:
        self._nothing = f"no study has been run under {home.root}; start with: ablate list"
        if not home.has_record():  # a client would make an empty one
            raise UserError(self._nothing)
        self._client = MlflowClient(home.tracking_uri)

    def fetch(self, run_id: str, name: str) -> Path:
        """A local copy of an artifact."""
        try:
            return Path(self._client.download_artifacts(run_id, name))
        except (MlflowException, OSError):
            raise FileNotFoundError(f"run {run_id} has no {name}") from None

    def names(self) -> list[str]:
        """Studies with a record, the last started first."""
        found = self._client.search_experiments()
        names = [e.name for e in found if e.name != "Default" and e.tags.get(KIND) != "training"]
        if not names:
            raise UserError(self._nothing)
        return names

    def latest(self, name: str, budget: str | None = None) -> StudyRecord | None:
        """The study as last worked on, of one budget if given."""
        found = self._client.get_experiment_by_name(name)
        if found is None:
            return None
        where = f"tags.`{KIND}` = 'study'"
        where += f" and tags.`ablate.budget` = '{budget}'" if budget else ""
        studies = list(_runs(self._client, found.experiment_id, where))
        for run in sorted(studies, key=lambda run: float(run.data.tags[WORKED]), reverse=True):
            try:
                return self._record(found.experiment_id, run)
            except (FileNotFoundError, json.JSONDecodeError):  # killed as it began
                continue
        return None

    def _record(self, experiment: str, run: Run) -> StudyRecord:
        tags, run_id = run.data.tags, run.info.run_id
        spec = self._document(run_id, "study.json")
        runs = _runs(self._client, experiment, f"tags.`{STUDY}` = '{tags[STUDY]}'")
        return StudyRecord(
            run_id=run_id,
            name=spec["name"],
            budget=spec["budget"],
            question=spec["question"],
            hash=tags["ablate.hash"],
            spec=spec,
            objectives=[Objective(o["metric"], o["direction"]) for o in spec["objectives"]],
            planned=spec["trials"],
            protocols=self._document(run_id, "protocols.json"),
            yardsticks=_yardsticks(run.data.metrics),
            tags={k: v for k, v in tags.items() if not k.startswith("mlflow.")},
            trials=_trials(list(runs)),
        )

    def _document(self, run_id: str, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.fetch(run_id, name).read_text())
        return document


def _yardsticks(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        if key.startswith(YARDSTICK):
            _, name, metric = key.split("/")
            found.setdefault(name, {})[metric] = value
    return found


def _trials(runs: list[Run]) -> list[Trial]:
    cells: dict[int, list[Cell]] = {}
    for run in runs:
        if run.data.tags[KIND] == "cell" and _state(run) in ("complete", "diverged"):
            cell = Cell(
                run.info.run_id, int(run.data.tags[SEED]), _state(run), dict(run.data.metrics)
            )
            cells.setdefault(_number(run), []).append(cell)
    trials = [_trial(r, cells.get(_number(r), [])) for r in runs if r.data.tags[KIND] == "trial"]
    return sorted(trials, key=lambda trial: trial.number)


def _trial(run: Run, cells: list[Cell]) -> Trial:
    means, intervals = summarise([cell.metrics for cell in cells])
    return Trial(
        run_id=run.info.run_id,
        number=_number(run),
        state=_state(run),
        params={k: _typed(v) for k, v in run.data.params.items()},
        metrics=means,
        intervals=intervals,
        reason=run.data.tags.get(REASON) or None,
        cells=sorted(cells, key=lambda cell: cell.seed),
    )


def _state(run: Run) -> str:
    return run.data.tags.get(STATE, "failed") if run.info.status != "RUNNING" else "running"


def _typed(text: str) -> Value:
    """MLflow keeps parameters as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
