"""A record that others wrote: its names must not lead a report out of its folder."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.results import COMPARISONS, IMPORTANCE, PROTOCOLS, VOCABULARY
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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("objectives", []), ("objectives", [{"metric": "kid", "direction": "sideways"}])],
        *[("trials", "x"), ("trials", -1), ("trials", True), ("question", ["?"]), ("answers", 5)],
        *[("search", [1]), ("seeds", "abc"), ("method", {}), ("constraints", {"nfe": "few"})],
        *[("published", [1]), ("marks", "zzz"), ("confirm", {"named": {"x": "y"}})],
    ],
)
def test_values_of_another_kind_are_refused_by_key(key: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"not a study's record \({key} = ") as caught:
        recorded(tmp_path, **{key: value}).latest("tiny")
    assert "\n" not in str(caught.value)


def test_what_older_records_lack_is_not_asked_for(tmp_path: Path) -> None:
    record = recorded(tmp_path, answers=None, confirm={"top": 3}).latest("tiny")
    assert record is not None


@pytest.mark.parametrize("name", [PROTOCOLS, VOCABULARY, IMPORTANCE, COMPARISONS])
@pytest.mark.parametrize("text", [b"[]", b"9" * 6000, b'"\xff"'])
def test_a_document_of_another_kind_is_one_line(name: str, text: bytes, tmp_path: Path) -> None:
    reader = recorded(tmp_path)
    (file,) = Workspace(tmp_path).artifacts.rglob(STUDY_FILE)
    file.with_name(name).write_bytes(text)
    with pytest.raises(UserError, match=r"not a study's record") as caught:
        reader.latest("tiny")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "words", [{"labels": 7}, {"labels": {}, "leaking": [7]}, {"labels": {"kid": []}, "leaking": []}]
)
def test_a_vocabulary_of_another_kind_is_one_line(words: dict[str, Any], tmp_path: Path) -> None:
    reader = recorded(tmp_path)
    (file,) = Workspace(tmp_path).artifacts.rglob(STUDY_FILE)
    file.with_name(VOCABULARY).write_text(json.dumps(words))
    with pytest.raises(UserError, match="its vocabulary"):
        reader.latest("tiny")


def said(reader: Reader) -> str:
    """What the reader says; empty if it reads the study."""
    try:
        return "" if reader.latest("tiny") is not None else "nothing there"
    except UserError as error:
        return str(error)


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE tags SET value = 'abc' WHERE key = '{WORKED}'",
        f"DELETE FROM tags WHERE key = '{WORKED}'",
        "UPDATE runs SET start_time = 9223372036854775807",
        "UPDATE tags SET value = 'x' WHERE key = 'ablate.trial'",
        f"DELETE FROM tags WHERE key IN ('ablate.trial', '{STUDY}')",
        "UPDATE tags SET value = '../..' WHERE key = 'ablate.seed'",
        "INSERT INTO latest_metrics SELECT 'baseline/x', 1, 1, 0, 0, run_uuid FROM runs",
    ],
)
def test_a_changed_table_is_read_or_refused_in_one_line(change: str, tmp_path: Path) -> None:
    """And the study is a row of `ablate list` whatever it says."""
    reader, workspace = recorded(tmp_path), Workspace(tmp_path)
    client = MlflowClient(workspace.tracking_uri)
    (study,) = client.search_runs([reader._experiments()[0][0]])
    for kind in ("trial", "cell"):
        tags = {KIND: kind, STUDY: "key", "ablate.trial": "0", "ablate.seed": "0"}
        run = client.create_run(study.info.experiment_id, tags=tags).info.run_id
        client.set_terminated(run)
    with closing(sqlite3.connect(workspace.record)) as database, database:
        database.execute(change)
    assert set(progress(workspace) or ()) == {"tiny"}
    line = said(reader)
    assert not line or "not a study's record" in line
    assert "\n" not in line
