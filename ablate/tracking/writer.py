"""Writing the record: finding before making is what lets it be taken up again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mlflow import Image
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.errors import hide_secrets
from ablate.files import make_whole
from ablate.home import Home
from ablate.record import Value
from ablate.tracking.client import (
    DONE,
    KIND,
    PARENT,
    REASON,
    SEED,
    STATE,
    STATUS,
    STUDY,
    TRAINING,
    TRIAL,
    WORKED,
    YARDSTICK,
    Knobs,
    Tags,
    runs_where,
)


class Tracker:
    """Writes one study or training. Finding before making is what lets it be taken up again."""

    def __init__(self, home: Home) -> None:
        self._artifacts: Path | None = None
        if home.is_local:
            self._artifacts = home.artifacts
            make_whole(home.record, _make_tables)
        self.client = MlflowClient(home.tracking_uri)

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
        tags = {**tags, KIND: "study", STUDY: key, WORKED: f"{time.time():.3f}", STATE: "running"}
        if found is None:
            experiment = self.experiment(name)
            run = self.client.create_run(experiment, tags=tags, run_name=key)
            found = StudyRun(self, experiment, run.info.run_id, key)
        else:
            self.client.update_run(found.run_id, status="RUNNING")
            self.log(found.run_id, tags=tags)
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
            self.client.update_run(run_id, status="RUNNING")
            self.log(run_id, tags=tags)
            return run_id
        tags = {**tags, KIND: "training", TRAINING: key}
        run = self.client.create_run(experiment, tags=tags, run_name=f"{name} {key}")
        self.log(run.info.run_id, params=params)
        return str(run.info.run_id)

    def open_evaluation(self, name: str, tags: Tags) -> str:
        experiment = self.experiment("evaluations", {KIND: "evaluation"})
        tags = {**tags, KIND: "evaluation"}
        return str(self.client.create_run(experiment, tags=tags, run_name=name).info.run_id)

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
        tags = {STATE: state, REASON: hide_secrets(reason)[:5000] if reason else ""}
        self.log(run_id, metrics, params, tags)
        self.client.set_terminated(run_id, STATUS.get(state, "FAILED"))


def _make_tables(file: Path) -> None:
    """MLflow makes them one by one, and cannot go on with half of them."""
    MlflowClient(f"sqlite:///{file}").search_experiments(max_results=1)


class DoneCell(NamedTuple):
    """A cell that was run before."""

    run_id: str
    state: str  # complete, diverged or pruned
    metrics: dict[str, float]
    reason: str | None


class StudyRun:
    """An open study: hands out trial and cell runs, and finds those that were there before."""

    def __init__(self, tracker: Tracker, experiment: str, run_id: str, key: str) -> None:
        self.run_id = run_id
        self.log, self.close, self.log_picture = tracker.log, tracker.close, tracker.log_picture
        self._client, self._experiment, self._key = tracker.client, experiment, key

    def is_whole(self) -> bool:
        """Whether it was brought to its end before: its status is the last thing to be set."""
        run = self._client.get_run(self.run_id)
        return run.data.tags.get(STATE) == "complete" and run.info.status == "FINISHED"

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

    def open_trial(self, number: int, knobs: Knobs, tags: Tags, *, again: bool) -> str:
        """`again`: another worker may have begun it."""
        tags = {**tags, TRIAL: str(number)}
        found = list(self._trial_runs(number, "trial")) if again else []
        if not found:
            return self._create("trial", f"trial {number}", self.run_id, tags, knobs)
        run_id = str(found[0].info.run_id)
        self._client.update_run(run_id, status="RUNNING")
        self.log(run_id, params=knobs, tags=tags)  # a kill may have come before these
        return run_id

    def done_cells(self, number: int) -> dict[int, DoneCell]:
        """Cells of a trial that another worker brought to their end, by seed; what it left in the
        middle is closed."""
        done: dict[int, DoneCell] = {}
        for run in list(self._trial_runs(number, "cell")):
            tags = run.data.tags
            if run.info.status == "RUNNING":
                self.close(run.info.run_id, "interrupted", "its process was killed")
            elif tags.get(STATE) in DONE:
                cell = DoneCell(
                    run.info.run_id, tags[STATE], dict(run.data.metrics), tags.get(REASON) or None
                )
                done.setdefault(int(tags[SEED]), cell)
        return done

    def cell_run(self, number: int, seed: int) -> str:
        """The run of a cell that is done."""
        return self.done_cells(number)[seed].run_id

    def _trial_runs(self, number: int, kind: str) -> Iterator[Run]:
        return self._runs(f"tags.`{TRIAL}` = '{number}' and tags.`{KIND}` = '{kind}'")

    def open_cell(self, trial_run: str, number: int, seed: int, tags: Tags) -> str:
        tags = {**tags, TRIAL: str(number), SEED: str(seed)}
        return self._create("cell", f"trial {number} seed {seed}", trial_run, tags)

    def _create(
        self, kind: str, name: str, parent: str, tags: Tags, knobs: Knobs | None = None
    ) -> str:
        tags = {**tags, KIND: kind, STUDY: self._key, PARENT: parent}
        run = self._client.create_run(self._experiment, tags=tags, run_name=name)
        run_id = str(run.info.run_id)
        if knobs:
            self.log(run_id, params=knobs)
        return run_id

    def log_files(self, run_id: str, folder: Path) -> None:
        self._client.log_artifacts(run_id, str(folder))

    def fetch(self, run_id: str, name: str) -> Path:
        return Path(self._client.download_artifacts(run_id, name))

    def log_document(self, name: str, document: object) -> None:
        self._client.log_text(self.run_id, json.dumps(document, indent=1), name)
