"""How trials end: complete, diverged, failed, pruned; repeated configurations and constraints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from torch import Tensor

from ablate.core.errors import PassingError
from ablate.core.workspace import Workspace
from ablate.experiment import cell_attempts
from ablate.experiment.cell import CellResult, run_cell
from ablate.experiment.prepare import Setup
from ablate.experiment.worker import run
from ablate.generate.settings import Settings
from ablate.search import propose
from tests.support.commands import ablate
from tests.support.studies import (
    STARTS,
    Quiet,
    changed,
    make_root,
    record_of,
    results,
    runs,
    setup_of,
)


def wild(root: Path) -> Setup:
    """ASAMS on levels fine enough to keep its signs; every second trial takes steps 60 times as
    long and diverges."""
    file = root / "studies" / "tiny.toml"
    text = file.read_text().replace('sampler = "adls"', 'sampler = "asams"')
    text = text.replace("levels = 6", "levels = 64\ns_min = 0.03")
    text = text.replace("{ low = 0.5, high = 1.0, step = 0.25 }", "[0.5, 60.0]")
    file.write_text(text)
    return setup_of(root)


def test_divergence_is_a_result_and_the_study_goes_on(tiny_bundle: Path, tmp_path: Path) -> None:
    setup, watcher = wild(make_root(tmp_path, tiny_bundle)), Quiet()
    outcome = run(setup, Workspace(tmp_path), watcher)
    assert outcome.failures == []
    assert [state for _, state in watcher.states] == ["complete", "diverged"] * 2
    rows = results(tmp_path)
    assert [row["state"] for row in rows] == ["complete", "diverged"] * 2
    assert "at step" in rows[1]["reason"]
    assert "fid" not in rows[1]["metrics"]
    diverged = [run for run in runs(tmp_path) if run.data.tags.get("ablate.state") == "diverged"]
    assert len(diverged) == 4  # two trials, and the cell of each
    assert {run.info.status for run in diverged} == {"FINISHED"}  # a result, not a failure
    assert run(setup, Workspace(tmp_path), Quiet()).ran == 0


def test_a_failed_trial_keeps_its_reason_and_the_study_goes_on(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle))

    def broken(setup: Setup, settings: Settings, *rest: Any) -> CellResult:
        if settings.relative_step == 0.75:
            raise RuntimeError("no memory left")
        return run_cell(setup, settings, *rest)

    monkeypatch.setattr(cell_attempts, "run_cell", broken)
    outcome = run(setup, Workspace(tmp_path), Quiet())
    assert outcome.failures == [(1, "RuntimeError: no memory left")]
    states = {row["number"]: (row["state"], row["reason"]) for row in results(tmp_path)}
    assert states[1] == ("failed", "RuntimeError: no memory left")
    assert states[2] == ("complete", None)


def test_a_cell_that_fails_is_tried_again(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, times = setup_of(make_root(tmp_path, tiny_bundle, trials=2)), [0]

    def shaky(*arguments: Any) -> CellResult:
        times[0] += 1
        if times[0] in (2, 3):
            raise RuntimeError(f"failure {times[0]}")
        return run_cell(*arguments)

    monkeypatch.setattr(cell_attempts, "run_cell", shaky)
    watcher = Quiet()
    assert run(setup, Workspace(tmp_path), watcher).failures == []
    assert abs(watcher.share - 2) < 1e-9
    failed = [found for found in runs(tmp_path) if found.data.tags.get("ablate.state") == "failed"]
    assert {found.info.status for found in failed} == {"FAILED"}
    assert {found.data.tags["ablate.reason"] for found in failed} == {
        "RuntimeError: failure 2",
        "RuntimeError: failure 3",
    }
    assert [len(trial.cells) for trial in record_of(Workspace(tmp_path)).trials] == [
        2,
        2,
    ]


def test_an_invalid_configuration_fails_and_the_study_goes_on(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    """`s_min` above the start's noise level, in a space too large to check every combination. The
    command shows it in a table, and in its exit code."""
    many = ", ".join(str(0.9 + i / 1000) for i in range(100))
    root = make_root(tmp_path, tiny_bundle, "random", trials=6)
    changes = [
        ("sigma = 0.8\n", ""),
        ('init = ["class-average", "lognormal", "gaussian"]', 'init = ["gaussian"]'),
        ("r = { low = 0.5, high = 1.0, step = 0.25 }", f"r = [{many}]\nchi = [{many}]"),
        ("[search]", "[search]\nsigma = [0.8, 0.1]\ns_min = [0.01, 0.3]"),
    ]
    setup = changed(root, *changes)
    rows = [propose(setup.study, n, []).params for n in range(6)]
    wrong = [n for n, row in enumerate(rows) if float(row["sigma"]) < float(row["s_min"])]
    assert 0 < len(wrong) < 6
    refused = ablate(root, "study", "tiny", "--plan", check=False)
    assert refused.returncode == 2
    assert "is not below the start's noise level" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    done = ablate(root, "study", "tiny", check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "trial that failed" in done.stdout
    failed = {row["number"]: row["reason"] for row in results(root) if row["state"] == "failed"}
    assert list(failed) == wrong
    assert all("is not below the start's noise level" in reason for reason in failed.values())
    assert len(results(root)) == 6
    again = ablate(root, "study", "tiny", check=False)
    assert again.returncode == 1
    assert "nothing to do" in again.stdout


def _steps(root: Path, run_id: str) -> list[int]:
    """The numbers of samples at which a cell's KID was recorded."""
    history = MlflowClient(Workspace(root).tracking_uri).get_metric_history(run_id, "kid")
    return sorted(metric.step for metric in history)


def test_a_worse_trial_is_pruned(tiny_bundle: Path, tmp_path: Path) -> None:
    """Of six trials with these starts, three are far better."""
    root = make_root(tmp_path, tiny_bundle, trials=6)
    setup = changed(root, STARTS, ("samples = 40", "samples = 256\nrungs = [64]"))
    watcher = Quiet()
    run(setup, Workspace(root), watcher)
    states = dict(watcher.states)
    assert states[0] == "complete"
    assert "pruned" in states.values()
    assert abs(watcher.share - 6) < 1e-9
    for row in results(root):
        assert row["state"] == states[row["number"]]
        if row["state"] == "pruned":
            assert "worse than that of trial" in row["reason"]
            assert "kid" in row["metrics"]
            assert "kid" in row["intervals"]
            assert "fid" not in row["metrics"] or row["metrics"]["samples"] == 256
        else:
            assert row["metrics"]["samples"] == 256
    first = record_of(Workspace(root)).trials[0]
    assert _steps(root, first.cells[0].run_id) == [256]  # nothing to hold it against
    pruned = next(t for t in record_of(Workspace(root)).trials if t.state == "pruned")
    assert _steps(root, pruned.cells[0].run_id)[0] == 64


def test_what_was_drawn_for_a_rung_is_kept(tiny_bundle: Path, tmp_path: Path) -> None:
    """With rungs and without: the same images, the same number of calls, the same bits."""
    calls: dict[str, list[int]] = {"with": [], "without": []}
    found: dict[str, CellResult] = {}

    def no_reason(features: Tensor) -> str | None:
        return None

    for name, rungs in (("with", "\nrungs = [128]"), ("without", "")):
        root = make_root(tmp_path / name, tiny_bundle, trials=1)
        setup = changed(root, ("samples = 40", f"samples = 256{rungs}"))
        settings = setup.study.settings(next(setup.study.grid()))
        judge = no_reason if rungs else None
        found[name] = run_cell(setup, settings, 0, lambda: calls[name].append(1), judge)  # noqa: B023
    assert len(calls["with"]) == len(calls["without"]) == 4 * 5
    assert torch.equal(found["with"].drawing.pixels, found["without"].drawing.pixels)
    same = {k: v for k, v in found["with"].metrics.items() if k in found["without"].metrics}
    assert {**same, "seconds": 0} == {**found["without"].metrics, "seconds": 0}
    assert list(found["with"].rungs) == [128]
    assert "kid" in found["with"].rungs[128]
    assert "fid" not in found["with"].rungs[128]  # it depends on how many samples there are


def test_a_rival_that_cannot_be_fetched_fails_no_trial(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The artifact store is unreachable: the study stops, and no trial fails or is pruned."""
    root = make_root(tmp_path, tiny_bundle, trials=3)
    setup = changed(root, ("samples = 40", "samples = 128\nrungs = [64]"))

    def away(*_: object) -> Path:
        raise MlflowException("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "download_artifacts", away)
        with pytest.raises(PassingError, match="the store is away; the same command continues"):
            run(setup, Workspace(root), Quiet())
    assert run(setup, Workspace(root), Quiet()).failures == []
    assert not {row["state"] for row in results(root)} & {"failed", "running"}


def test_a_configuration_proposed_again_gets_further_seeds(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    root = make_root(tmp_path, tiny_bundle, "random", trials=5)
    steps = ("r = { low = 0.5, high = 1.0, step = 0.25 }", "")
    setup = changed(root, STARTS, steps)
    run(setup, Workspace(root), Quiet())
    trials = record_of(Workspace(root)).trials
    first: dict[object, int] = {}
    for trial in trials:
        original = first.setdefault(trial.params["init"], trial.number)
        if original != trial.number:
            assert trial.state == "repeated"
            assert trial.reason == f"more seeds of trial {original}"
    originals = [trial for trial in trials if trial.state == "complete"]
    assert len(originals) == 2
    seeds = [[cell.seed for cell in trial.cells] for trial in originals]
    assert sorted(map(len, seeds)) in ([2, 8], [4, 6])
    for each in seeds:
        assert each == list(range(len(each)))  # seeds 0 and 1, then 2 and 3, …
    for trial in originals:
        values = [cell.metrics["kid"] for cell in trial.cells]
        assert abs(trial.metrics["kid"] - sum(values) / len(values)) < 1e-12


def test_what_breaks_a_constraint_is_not_ranked(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=4)
    run(setup_of(root), Workspace(root), Quiet())
    rates = [row["metrics"]["clamp_rate"] for row in results(root)]
    bound = sorted(rates)[1]
    setup = changed(root, ("[fixed]", f"[constraints]\nclamp_rate = {bound}\n[fixed]"))
    run(setup, Workspace(root), Quiet())
    record = record_of(Workspace(root))
    assert [t.metrics["clamp_rate"] for t in record.trials] == rates
    assert {t.number for t in record.ranked()} == {n for n in range(4) if rates[n] <= bound}
