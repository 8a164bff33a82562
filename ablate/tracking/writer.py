"""Writing to the record: experiments, runs of trainings and evaluations, metrics, pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mlflow import Image
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.errors import hide_secrets
from ablate.core.files import make_whole
from ablate.core.workspace import Workspace, sqlite_url
from ablate.results import Value
from ablate.tracking.client import Run, runs_where
from ablate.tracking.relocation import correct_places
from ablate.tracking.transaction import at_once
from ablate.tracking.vocabulary import (
    KIND,
    REASON,
    STATE,
    STATUS,
    TRAINING,
    Knobs,
    Tags,
    training_key,
)

KIND_OF_EXPERIMENT = {"mlflow.experimentKind": "custom_model_development"}
"""Tag of experiments that train models; others are opened as ones of language models."""


class Tracker:
    """Writes runs to one record. It searches for a run before it creates one, so that a process
    continues what an earlier one began."""

    def __init__(self, workspace: Workspace) -> None:
        self.uri = workspace.tracking_uri
        self._artifacts: Path | None = None
        if workspace.is_local:
            self._artifacts = workspace.artifacts
            make_whole(workspace.record, _make_tables)
            correct_places(workspace)
        self.client = MlflowClient(self.uri)

    def experiment(self, name: str, tags: Tags | None = None) -> str:
        """The id of an experiment, created if it does not exist."""
        experiment = self.client.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        location = None if self._artifacts is None else (self._artifacts / name).as_uri()
        try:
            return str(
                self.client.create_experiment(name, location, KIND_OF_EXPERIMENT | dict(tags or {}))
            )
        except MlflowException:  # another worker created it first
            experiment = self.client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return str(experiment.experiment_id)

    def open_training(self, name: str, what: str, params: Knobs, tags: Tags) -> str:
        """The run of a training, identified by `what`: the last one if it did not finish, else a
        new one."""
        key = training_key(what)
        last = self.find_training(name, key)
        if last is not None and last.info.status != "FINISHED":
            self.reopen(last.info.run_id, tags)
            return str(last.info.run_id)
        experiment = self.experiment(f"train-{name}", {KIND: "training"})
        tags = {**tags, KIND: "training", TRAINING: key}
        run = self.client.create_run(experiment, tags=tags, run_name=f"{name} {key}")
        self.log(run.info.run_id, params=params)
        return str(run.info.run_id)

    def find_training(self, name: str, key: str) -> Run | None:
        """The last run of a training, by its tag; None if there is none."""
        experiment = self.client.get_experiment_by_name(f"train-{name}")
        if experiment is None:
            return None
        where = f"tags.`{TRAINING}` = '{key}'"
        runs = list(runs_where(self.client, experiment.experiment_id, where))
        return runs[-1] if runs else None

    def open_evaluation(self, name: str, tags: Tags) -> str:
        """The id of a new run in the experiment `evaluations`."""
        experiment = self.experiment("evaluations", {KIND: "evaluation"})
        tags = {**tags, KIND: "evaluation"}
        return str(self.client.create_run(experiment, tags=tags, run_name=name).info.run_id)

    def reopen(self, run_id: str, tags: Tags) -> None:
        """Set a run that was stopped to RUNNING and clear the reason why it stopped."""
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
        """Write metrics, parameters and tags in one message."""
        now = int(time.time() * 1000)
        self.client.log_batch(
            run_id,
            [Metric(k, v, now, step) for k, v in (metrics or {}).items()],
            [Param(k, str(v)) for k, v in (params or {}).items()],
            [RunTag(k, v) for k, v in (tags or {}).items()],
        )

    def log_picture(self, run_id: str, path: Path, step: int = 0) -> None:
        """Write a picture as a file, and as an image that the UI compares over runs and steps."""
        self.client.log_artifact(run_id, str(path))
        image = Image(str(path))
        self.client.log_image(run_id, image, key=path.stem, step=step, synchronous=True)

    @contextmanager
    def closing(self, run_id: str) -> Iterator[None]:
        """Close the run at the end of the block, with the state in which the block ended."""
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
        step: int = 0,
    ) -> None:
        """Write a run's last metrics, parameters and tags in one message, then its status."""
        tags = {STATE: state} | ({REASON: hide_secrets(reason)[:5000]} if reason else {})
        with at_once(self.client):
            self.log(run_id, metrics, params, tags, step)
            self.client.set_terminated(run_id, STATUS.get(state, "FAILED"))


def _make_tables(file: Path) -> None:
    """Create MLflow's tables in a file. MLflow creates them one by one, and cannot continue if it
    is killed in between."""
    MlflowClient(sqlite_url(file)).search_experiments(max_results=1)
