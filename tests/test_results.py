"""Studies ranked together: only if they were measured alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.experiment.prepare import Setup
from ablate.experiment.worker import run
from ablate.results import Objective, joined
from ablate.tracking.reader import Reader
from tests.support.records import study
from tests.support.studies import Quiet, ablate, make_root, setup_of


def test_studies_measured_alike_are_one_ranking() -> None:
    first, second = study(), study()._replace(name="other")
    both = joined([first, second])
    assert len(both.trials) == 2 * len(first.trials)
    assert {trial.params["study"] for trial in both.trials} == {first.name, "other"}
    ranked = [trial.metrics["kid"] for trial in both.ranked()]
    assert ranked == sorted(ranked)
    assert len(ranked) == 2 * len(first.ranked())
    assert f"other: {next(iter(first.baselines))}" in both.baselines


def test_studies_measured_otherwise_are_refused() -> None:
    first = study()
    more = {**first.protocols["kid"], "samples": 99, "hash": "beef"}
    second = first._replace(name="other", protocols={**first.protocols, "kid": more})
    with pytest.raises(UserError) as caught:
        joined([first, second])
    samples = first.protocols["kid"]["samples"]
    assert f"kid of {first.name} and other: protocols differ" in str(caught.value)
    assert f"samples: {samples} against 99" in str(caught.value)
    assert "hash" not in str(caught.value)


def test_studies_that_seek_different_things_are_refused() -> None:
    first = study()
    second = first._replace(name="other", objectives=[Objective("recall", "maximize")])
    with pytest.raises(UserError, match="recall maximize"):
        joined([first, second])


@pytest.fixture
def measured(tiny_bundle: Path, tmp_path: Path) -> tuple[Setup, Workspace]:
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), Workspace(tmp_path)
    run(setup, workspace, Quiet())
    return setup, workspace


def test_the_command_ranks_and_refuses(measured: tuple[Setup, Workspace]) -> None:
    _, workspace = measured
    text = (workspace.root / "studies" / "tiny.toml").read_text()
    (workspace.root / "studies" / "more.toml").write_text(
        text.replace("samples = 40", "samples = 50")
    )
    (workspace.root / "studies" / "same.toml").write_text(text.replace('"adls"', '"asams"'))
    for name in ("more", "same"):
        run(setup_of(workspace.root, name), workspace, Quiet())
    assert "same" in ablate(workspace.root, "results", "tiny", "same").stdout
    refused = ablate(workspace.root, "results", "tiny", "more", check=False)
    assert refused.returncode == 2
    assert "samples: 40 against 50" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_cell_measured_otherwise_than_its_study_is_not_ranked(
    measured: tuple[Setup, Workspace],
) -> None:
    setup, workspace = measured
    client, before = MlflowClient(workspace.tracking_uri), Reader(workspace).latest("tiny")
    assert before is not None
    client.set_tag(before.trials[1].cells[0].run_id, "protocol.kid", "beef")
    with pytest.raises(UserError, match=f"beef, the study's by {setup.reference.protocol.hash}"):
        Reader(workspace).latest("tiny")
