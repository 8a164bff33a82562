"""`ablate report`: of one study, of several, and while a study runs."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from tests.support.commands import Command, until
from tests.support.studies import Quiet, ablate, make_root, setup_of


@pytest.fixture(scope="module")
def root(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the finished studies `tiny` and `small`, which has fewer samples."""
    folder = make_root(tmp_path_factory.mktemp("report") / "root", tiny_bundle, trials=2)
    text = (folder / "studies" / "tiny.toml").read_text()
    (folder / "studies" / "small.toml").write_text(text.replace("samples = 40", "samples = 24"))
    (folder / "studies" / "alike.toml").write_text(text.replace("trials = 2", "trials = 1"))
    for name in ("tiny", "small", "alike"):
        run(setup_of(folder, name), Workspace(folder), Quiet())
    return folder


def test_several_studies_are_compared_and_mixed_protocols_refused(root: Path) -> None:
    refused = ablate(root, "report", "tiny", "small", check=False)
    assert refused.returncode == 2
    assert "protocols differ" in refused.stderr
    assert not (root / "reports").exists()
    printed = ablate(root, "report", "tiny", "alike").stdout.split()
    reports = root / "reports"
    folders = [reports / name for name in ("tiny", "alike", "tiny+alike")]
    assert printed == [str(place / "index.html") for place in [*folders, reports]]
    assert "Ranked together" in (folders[2] / "index.html").read_text(encoding="utf-8")
    shutil.rmtree(reports)


def test_without_a_name_all_are_written(root: Path) -> None:
    ablate(root, "report")
    pages = sorted(path.parent.name for path in (root / "reports").glob("*/index.html"))
    assert pages == ["alike", "small", "tiny"]
    nothing = ablate(root, "report", "--budget", "full", check=False)
    assert nothing.returncode == 2
    assert "no study has been run with budget full" in nothing.stderr
    shutil.rmtree(root / "reports")


def test_help_says_which_budget_is_taken_and_where_reports_go(root: Path) -> None:
    text = " ".join(ablate(root, "report", "--help").stdout.replace("│", "").split())
    assert "of each study the budget that was last worked on" in text
    assert "reports/<study>-<budget>/" in text


def test_watching_writes_again_when_the_record_changes_and_ends_cleanly(root: Path) -> None:
    watch = Command(root, "report", "tiny", "--watch")
    page = root / "reports" / "tiny" / "index.html"
    until(page.is_file, watch)
    until(lambda: "watching" in _output(watch), watch)
    before = page.stat().st_mtime_ns
    run(setup_of(root, "alike"), Workspace(root), Quiet())  # opens the study: the record changes
    until(lambda: page.is_file() and page.stat().st_mtime_ns > before, watch)
    watch.send_signal(signal.SIGINT)
    stdout, stderr = watch.communicate(timeout=60)
    assert watch.returncode == 0
    assert stdout.splitlines()[-1] == "stopped watching; the reports stay"
    assert "Traceback" not in stderr


def _output(command: Command) -> str:
    return command._files[0].read_text()
