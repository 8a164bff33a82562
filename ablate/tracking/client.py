"""What runs are tagged with, and how they are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlflow.entities import Run, ViewType
from mlflow.tracking import MlflowClient

from ablate.record import Value

KIND, STUDY, TRIAL, SEED = "ablate.kind", "ablate.study", "ablate.trial", "ablate.seed"
STATE, REASON = "ablate.state", "ablate.reason"
WORKED = "ablate.worked"  # when a process last took it up
PARENT = "mlflow.parentRunId"
STATUS = {"complete": "FINISHED", "interrupted": "KILLED"}  # any other state is FAILED
YARDSTICK = "yardstick/"
TRAINING = "ablate.training"

Knobs = Mapping[str, Value]
Tags = Mapping[str, str]


def trial_number(run: Run) -> int:
    return int(run.data.tags[TRIAL])


def runs_where(client: MlflowClient, experiment: str, where: str = "") -> Iterator[Run]:
    token = None
    while True:
        page = client.search_runs(
            [experiment], where, ViewType.ACTIVE_ONLY, 1000, ["attributes.start_time ASC"], token
        )
        yield from page
        if not (token := page.token):
            return
