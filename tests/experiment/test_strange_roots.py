"""Roots whose paths have characters that mean something in the URL of a database."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from ablate.core.workspace import Workspace, sqlite_url
from tests.support.commands import ablate
from tests.support.studies import make_root, results, timeless

NAMES = ("a#b", "a?b=c", "100%", "a%20b", "{version}", "a b@c:d&e;f", "ü")


@pytest.mark.parametrize("name", NAMES)
def test_a_url_leads_to_its_file(name: str) -> None:
    file = Path("/data", name, "mlruns", "mlflow.db")
    assert make_url(sqlite_url(file)).database == str(file)
    assert make_url(sqlite_url(file)).query == {}


def test_the_url_of_a_plain_path_is_as_it_was() -> None:
    assert Workspace(Path("/data")).tracking_uri == "sqlite:////data/mlruns/mlflow.db"


def test_a_study_runs_and_continues_in_a_strange_root(
    whole: Path, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databases and artifacts are under the root, and nothing is beside it."""
    monkeypatch.chdir(tmp_path)
    root = make_root(tmp_path / "".join(NAMES), tiny_bundle, trials=1, databases=False)
    for _ in range(2):
        printed = ablate(root, "study", "tiny").stdout
    assert "finished before" in printed
    assert timeless(results(root)) == timeless(results(whole))[:1]
    assert {each.name for each in (root / "mlruns").iterdir()} >= {"mlflow.db", "optuna.db"}
    assert list(tmp_path.iterdir()) == [root]
    page = Path(ablate(root, "report", "tiny").stdout.strip().splitlines()[-1])
    assert page.is_relative_to(root)
    assert page.is_file()
