"""MLflow's client: whether its server is there, how runs are searched for, and their files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from mlflow.entities import Run as Run  # re-exported: MLflow's modules are imported in few places
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from ablate.core.errors import PassingError, UserError, first_line, hide_secrets
from ablate.core.patience import attempts

TROUBLES = (MlflowException, OSError)
"""Exceptions raised when the record cannot be read or written."""

BEHIND = (502, 503, 504)
"""Codes with which a proxy says that the server behind it does not answer."""

REFUSALS = ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED")
"""MLflow's names of 401 and 403."""


def reach(
    uri: str, patience: float | None = None, waiting: Callable[[str], None] = lambda reason: None
) -> None:
    """Raise a one-line error if no MLflow server answers; MLflow itself would retry for minutes.

    With `patience`, seconds to wait for it, the error is one that passes; `waiting` then gets the
    reason, once.
    """
    if not uri.startswith("http"):
        return
    said = False
    for last in attempts(patience or 0.0):
        if not (reason := _away(uri)):
            return
        reason = f"--tracking-uri {hide_secrets(uri)}: no MLflow server there ({reason})"
        if last and patience is None:
            raise UserError(reason)
        if last:
            raise PassingError(f"{reason}; the same command continues")
        if not said:
            waiting(reason)
            said = True


def _away(uri: str) -> str:
    """Why no server answers at an address; empty if one does."""
    try:
        parts = urlsplit(uri)
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        with urlopen(f"{place.rstrip('/')}/health", timeout=10):
            return ""
    except HTTPError as error:  # a server answered; it refuses the real requests if it has to
        return f"{error.code} {error.reason}" if error.code in BEHIND else ""
    except (ValueError, InvalidURL) as error:
        raise UserError(f"--tracking-uri {hide_secrets(uri)}: {first_line(error)}") from None
    except (OSError, HTTPException) as error:
        return hide_secrets(first_line(error))


def refuses(error: BaseException) -> bool:
    """Whether a server refuses who asks, by a wrong or missing password: asking again is in
    vain."""
    return isinstance(error, MlflowException) and error.error_code in REFUSALS


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


def discard(client: MlflowClient, run: Run) -> None:
    """Delete a run's artifacts, as far as their store allows it: they are litter, not a fault."""
    if run.info.run_id not in run.info.artifact_uri:
        return  # a place that other runs share
    with suppress(*TROUBLES, NotImplementedError):
        store: Any = get_artifact_repository(run.info.artifact_uri, client.tracking_uri)
        store.delete_artifacts()
