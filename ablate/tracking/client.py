"""What runs are tagged with, and how they are found."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.errors import UserError, first_line, hide_secrets
from ablate.results import Value

KIND, STUDY, TRIAL, SEED = "ablate.kind", "ablate.study", "ablate.trial", "ablate.seed"
STATE, REASON = "ablate.state", "ablate.reason"  # of a run that is not complete
KNOBS = "ablate.knobs"  # a trial's, as JSON: parameters cannot be set as a run is made
REPEATS = "ablate.repeats"  # a trial that has the same configuration, with other seeds
WORKED = "ablate.worked"  # when a process last took it up
PARENT = "mlflow.parentRunId"
STATUS = {"complete": "FINISHED", "interrupted": "KILLED", "running": "RUNNING"}
"""Any other state is FAILED, and a tag says which."""

TROUBLES = (MlflowException, OSError)
"""What it says when the record cannot be read or written."""

DONE = ("complete", "diverged", "pruned")
"""States in which a cell has all that it will ever have."""

BASELINE = "baseline/"
"""Beginning of a baseline's metrics in the study's run: baseline/held-out images/kid."""

OLD_BASELINE = "yardstick/"
"""The same in records that versions before 0.2 wrote."""

TRAINING = "ablate.training"


def reach(uri: str) -> None:
    """One clear line if there is no MLflow server; MLflow itself would try for minutes."""
    if not uri.startswith("http"):
        return
    try:
        parts = urlsplit(uri)
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        with urlopen(f"{place.rstrip('/')}/health", timeout=10):
            return
    except HTTPError:  # it is there, and will say no to the real requests if it must
        return
    except (OSError, ValueError, HTTPException) as error:
        raise UserError(
            f"--tracking-uri {hide_secrets(uri)}: no MLflow server there"
            f" ({hide_secrets(first_line(error))})"
        ) from None


Knobs = Mapping[str, Value]
Tags = Mapping[str, str]


def state_of(run: Run) -> str:
    told = {status: state for state, status in STATUS.items()}
    return told.get(run.info.status) or run.data.tags.get(STATE) or "failed"


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


@cache
def _downloads() -> tempfile.TemporaryDirectory[str]:
    """Gone with the process; MLflow by itself makes a folder for every file, and leaves it."""
    return tempfile.TemporaryDirectory(prefix="ablate-")


def fetch(client: MlflowClient, run_id: str, name: str) -> Path:
    """A local copy of an artifact."""
    folder = Path(_downloads().name, run_id)
    folder.mkdir(exist_ok=True)
    return Path(client.download_artifacts(run_id, name, str(folder)))
