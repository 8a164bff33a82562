"""A record that others wrote: its names must not lead a report out of its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.results import PROTOCOLS
from ablate.results import STUDY as STUDY_FILE
from ablate.tracking.client import KIND, STUDY, WORKED
from ablate.tracking.reader import Reader
from tests.support.studies import copy_of_record

SPEC: dict[str, Any] = {"name": "tiny", "budget": "quick", "question": "?", "trials": 1}
SPEC["objectives"] = [{"metric": "kid", "direction": "minimize"}]


def recorded(root: Path, **changes: Any) -> Reader:
    """A record of one study without trials, whose `study.json` is changed."""
    workspace = Workspace(root)
    copy_of_record(workspace.record)
    client = MlflowClient(workspace.tracking_uri)
    place = (workspace.artifacts / "tiny").as_uri()
    tags = {KIND: "study", STUDY: "key", WORKED: "1", "ablate.budget": "quick", "ablate.hash": "x"}
    run = client.create_run(client.create_experiment("tiny", place), tags=tags).info.run_id
    client.log_dict(run, {**SPEC, **changes}, STUDY_FILE)
    client.log_dict(run, {}, PROTOCOLS)
    return Reader(workspace)


def test_good_names_are_read(tmp_path: Path) -> None:
    record = recorded(tmp_path).latest("tiny")
    assert record is not None
    assert (record.name, record.budget) == ("tiny", "quick")


@pytest.mark.parametrize("key", ["name", "budget"])
@pytest.mark.parametrize("value", ["../../evil", "/etc/cron.d/x", "..", "", 7])
def test_names_that_lead_elsewhere_are_refused(key: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"its (study|budget)") as caught:
        recorded(tmp_path, **{key: value}).latest("tiny")
    assert "\n" not in str(caught.value)
