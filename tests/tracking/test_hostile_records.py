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
from ablate.tracking.glance import progress
from ablate.tracking.reader import Reader
from ablate.tracking.vocabulary import KIND, STUDY, WORKED
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


@pytest.mark.parametrize("spec", ["[" * 100_000, "[]", "7", '{"name": "tiny"}'])
def test_a_study_file_of_another_kind_is_one_line(spec: str, tmp_path: Path) -> None:
    """And it is no traceback of `ablate list`, which shows the studies beside it."""
    reader, workspace = recorded(tmp_path), Workspace(tmp_path)
    (file,) = workspace.artifacts.rglob(STUDY_FILE)
    file.write_text(spec)
    with pytest.raises(UserError, match=r"not a study's record") as caught:
        reader.latest("tiny")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert progress(workspace) == {}


@pytest.mark.parametrize("run_id", ["../../evil", "..", "a/b"])
def test_an_id_that_leads_elsewhere_is_refused(run_id: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a run's id"):
        recorded(tmp_path).fetch(run_id, STUDY_FILE)
