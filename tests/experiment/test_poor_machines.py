"""Machines with little memory, few file descriptors or a read-only root; reports while a study
runs."""

from __future__ import annotations

import resource
import shutil
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ablate.core.workspace import Workspace
from ablate.experiment import cell_attempts
from ablate.experiment.cell import run_cell
from tests.experiment.test_faults import read_only
from tests.support.commands import Command, ablate
from tests.support.studies import TRIALS, make_root, results, timeless


def few_files(more: int) -> None:
    """Allow this process so many open files beside those that it has."""
    used = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, used + more))


def little_memory(megabytes: int) -> None:
    """Allow this process so much memory beside what it has, as `ulimit -v` does."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def waiting(written: Path) -> None:
    """In a command's process: its second cell does not begin before `written` is there."""
    cells = count()

    def then(*arguments: Any) -> Any:
        deadline = time.monotonic() + 300
        wait = next(cells) == 1
        while wait and not written.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return run_cell(*arguments)

    patch.object(cell_attempts, "run_cell", then).start()


def refused(process: Command) -> str:
    """What a process says that did not get what it needs: one line, without a traceback; empty if
    it got through."""
    out, errors = process.communicate(timeout=400)
    assert process.returncode in (0, 1, 2, 75), (process.returncode, errors)
    assert "Traceback" not in errors
    if process.returncode == 0:
        return ""
    if process.returncode == 1:  # trials failed: the table has their reasons
        return out
    (line,) = [each for each in errors.strip().splitlines() if each.startswith("error: ")]
    return line


@pytest.mark.long
def test_few_file_descriptors_are_one_line(whole: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    """At any number of them; with enough, the same command continues."""
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    said = [refused(Command(root, "study", "tiny", first=partial(few_files, n))) for n in (2, 3, 4)]
    assert any("open" in line for line in said), said
    ablate(root, "study", "tiny")
    assert timeless(results(root)) == timeless(results(whole))


@pytest.mark.long
def test_little_memory_is_said(tiny_bundle: Path, tmp_path: Path) -> None:
    """As the study is prepared, or in its cells."""
    said = []
    for megabytes in (1, 16, 64):
        root = make_root(tmp_path / str(megabytes), tiny_bundle, trials=2)
        limit = partial(little_memory, megabytes)
        said.append(refused(Command(root, "study", "tiny", first=limit)))
    assert any("memory" in line for line in said), said


def test_results_of_a_read_only_root_are_shown(whole: Path, tmp_path: Path) -> None:
    """A report has nowhere to be; that is one line."""
    root = tmp_path / "root"
    shutil.copytree(whole, root)
    with read_only(root), read_only(Workspace(root).mlruns):
        assert "9 of 9 trials" in ablate(root, "results", "tiny").stdout
        assert "9 of 9 trials" in ablate(root, "list", "tiny").stdout
        done = ablate(root, "report", "tiny", check=False)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert str(root / "reports") in line


@pytest.mark.long
def test_reports_may_be_written_while_a_study_runs(
    whole: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    """Each is whole, and the study is not disturbed. It waits in its second cell for the first of
    them, so that one is written while it runs however fast the machine is."""
    root, written = make_root(tmp_path, tiny_bundle, trials=TRIALS), tmp_path / "written"
    process, reports = Command(root, "study", "tiny", first=partial(waiting, written)), 0
    while process.poll() is None:
        done = ablate(root, "report", "tiny", check=False)
        if done.returncode == 0:
            reports += process.poll() is None
            page = Path(done.stdout.strip().splitlines()[-1])
            assert page.read_text().rstrip().endswith("</html>")
            written.touch()
        else:  # before its first documents are written
            assert done.returncode == 2
            assert "been run" in done.stderr
    assert process.returncode == 0, process.communicate()
    assert reports > 0
    assert timeless(results(root)) == timeless(results(whole))
