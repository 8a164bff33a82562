"""The vocabulary of the record: tags of runs, and their states. It is known without MLflow."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

from ablate.results import Value

KIND, STUDY, TRIAL, SEED = "ablate.kind", "ablate.study", "ablate.trial", "ablate.seed"
STATE, REASON = "ablate.state", "ablate.reason"  # why: of a run that is not complete
KNOBS = "ablate.knobs"  # a trial's, as JSON: MLflow cannot set parameters as it creates a run
COARSENESS = "ablate.coarseness"  # of a trial's literal steps, as JSON
WARNING = "ablate.warning"  # of a study: what is wrong with its configurations
REPEATS = "ablate.repeats"  # the trial with the same configuration and other seeds
CONFIRMS = "ablate.confirms"  # the trial of the search that it measures again
BUDGET = "ablate.budget"
WORKED = "ablate.worked"  # time at which a process last opened the study
VERSION = "version."  # prefix of the tag of a library
PARENT = "mlflow.parentRunId"
DONE = ("complete", "diverged", "pruned")
"""States of a cell that is not run again: that it diverged is a result, too."""

STATUS = dict.fromkeys(DONE, "FINISHED") | {"interrupted": "KILLED", "running": "RUNNING"}
"""MLflow's status by state. Any other state is FAILED. A tag names the state."""

BASELINE = "baseline/"
"""Prefix of a baseline's metrics in the study's run: baseline/held-out images/kid."""

OLD_BASELINE = "yardstick/"
"""The same prefix in records that versions before 0.2 wrote."""

TRAINING = "ablate.training"
"""Tag of a training's run: what it is identified by."""

MODEL, TRAINING_RUN = "ablate.model", "ablate.training_run"
TRAINING_SEED = "ablate.training_seed"
"""Tags of a cell whose network the study trained: the network's hash, the run of its training, its
seed. Trials have the first two for each training seed, as in ablate.model.0."""

Knobs = Mapping[str, Value]
Tags = Mapping[str, str]


class RecordedRun(Protocol):
    """A run as MLflow or a local file gives it: MLflow's entity, or one with the same fields."""

    @property
    def info(self) -> Any: ...
    @property
    def data(self) -> Any: ...


def training_key(what: str) -> str:
    """The tag of the run of a training that is identified by `what`."""
    return hashlib.sha256(what.encode()).hexdigest()[:16]


def state_of(run: RecordedRun) -> str:
    """The state of a run, from its status and its tag. Older records have FAILED for pruned
    and diverged runs, and no tag for complete ones."""
    status = run.info.status
    ended = {"FINISHED": "complete", "FAILED": "failed"}
    if status in ended:
        return str(run.data.tags.get(STATE) or ended[status])
    return "interrupted" if status == "KILLED" else "running"


def trial_number(run: RecordedRun) -> int:
    return int(run.data.tags[TRIAL])


def worked(tags: Tags) -> float:
    """When a process last opened a study; one without a time comes before all others."""
    try:
        return float(tags[WORKED])
    except (KeyError, ValueError):
        return -math.inf
