"""Writing the record: finding before making is what lets it be taken up again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow import Image
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.tracking import MlflowClient

from ablate.home import Home
from ablate.interrupts import shielded
from ablate.record import Value
from ablate.tracking.client import (
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
    trial_number,
)


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
        runs = list(runs_where(self.client, experiment, f"tags.`{STUDY}` = '{key}'"))
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
        for run in runs_where(self.client, self.experiment(name), f"tags.`{STUDY}` = '{key}'"):
            if run.data.tags[KIND] == "study" and run.info.status != "FINISHED":
                self.close(run.info.run_id, "complete")

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
        self._trials = {trial_number(run): run for run in runs if run.data.tags[KIND] == "trial"}
        self._done: dict[tuple[int, int], Run] = {}
        for run in (run for run in runs if run.data.tags[KIND] == "cell"):
            if run.info.status == "RUNNING":
                self.close(run.info.run_id, "interrupted", "its process was killed")
            elif run.data.tags.get(STATE) in ("complete", "diverged"):
                self._done[trial_number(run), int(run.data.tags[SEED])] = run

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Whatever ends the block, the study's run says so; nothing under it is left RUNNING."""
        with self._tracker.closing(self.run_id):
            try:
                yield
            except BaseException:
                with shielded():
                    self._close_whatruns_where()
                raise

    def _close_whatruns_where(self) -> None:
        where = f"tags.`{STUDY}` = '{self._key}' and attributes.status = 'RUNNING'"
        for run in list(runs_where(self._client, self._experiment, where)):
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
