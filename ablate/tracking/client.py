"""The vocabulary of the record: tags of runs, states, and how runs are searched for."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from mlflow.entities import Run as Run  # re-exported: MLflow's modules are imported in few places
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.errors import UserError, first_line, hide_secrets
from ablate.results import Value

KIND, STUDY, TRIAL, SEED = "ablate.kind", "ablate.study", "ablate.trial", "ablate.seed"
STATE, REASON = "ablate.state", "ablate.reason"  # why: of a run that is not complete
KNOBS = "ablate.knobs"  # a trial's, as JSON: MLflow cannot set parameters as it creates a run
COARSENESS = "ablate.coarseness"  # of a trial's literal steps, as JSON
WARNING = "ablate.warning"  # of a study: what is wrong with its configurations
REPEATS = "ablate.repeats"  # the trial with the same configuration and other seeds
CONFIRMS = "ablate.confirms"  # the trial of the search that it measures again
WORKED = "ablate.worked"  # time at which a process last opened the study
VERSION = "version."  # prefix of the tag of a library
PARENT = "mlflow.parentRunId"
TROUBLES = (MlflowException, OSError)
"""Exceptions raised when the record cannot be read or written."""

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


def training_key(what: str) -> str:
    """The tag of the run of a training that is identified by `what`."""
    return hashlib.sha256(what.encode()).hexdigest()[:16]


def reach(uri: str) -> None:
    """Raise a one-line error if no MLflow server answers; MLflow itself would retry for minutes."""
    if not uri.startswith("http"):
        return
    try:
        parts = urlsplit(uri)
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        with urlopen(f"{place.rstrip('/')}/health", timeout=10):
            return
    except HTTPError:  # a server answered; it refuses the real requests if it has to
        return
    except (OSError, ValueError, HTTPException) as error:
        raise UserError(
            f"--tracking-uri {hide_secrets(uri)}: no MLflow server there"
            f" ({hide_secrets(first_line(error))})"
        ) from None


def state_of(run: Run) -> str:
    """The state of a run, from its status and its tag. Older records have FAILED for pruned
    and diverged runs, and no tag for complete ones."""
    status = run.info.status
    ended = {"FINISHED": "complete", "FAILED": "failed"}
    if status in ended:
        return run.data.tags.get(STATE) or ended[status]
    return "interrupted" if status == "KILLED" else "running"


def trial_number(run: Run) -> int:
    return int(run.data.tags[TRIAL])


def runs_where(client: MlflowClient, experiment: str, where: str = "") -> Iterator[Run]:
    """Runs of an experiment that match an MLflow filter, oldest first, page by page."""
    token = None
    while True:
        page = client.search_runs(
            [experiment], where, ViewType.ACTIVE_ONLY, 1000, ["attributes.start_time ASC"], token
        )
        yield from page
        if not (token := page.token):
            return


@cache
def _downloads() -> tempfile.TemporaryDirectory[str]:
    """A folder that is deleted with the process; MLflow's default leaves one for every file."""
    return tempfile.TemporaryDirectory(prefix="ablate-")


def fetch(client: MlflowClient, run_id: str, name: str) -> Path:
    """Download an artifact and return its local path."""
    folder = Path(_downloads().name, run_id)
    folder.mkdir(exist_ok=True)
    return Path(client.download_artifacts(run_id, name, str(folder)))
