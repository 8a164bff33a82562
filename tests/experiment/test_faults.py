"""Faults on purpose: kills at random moments, full disks, files that vanish or change."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy as sa
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.errors import PassingError, UserError, hide_secrets, keep_secret
from ablate.core.signals import shielded
from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from ablate.search.database import cause, passes, patiently
from tests.support.commands import Command, ablate, until
from tests.support.studies import (
    TRIALS,
    Quiet,
    done_cells,
    make_root,
    results,
    runs,
    setup_of,
    timeless,
)

WINDOW = 2.5
"""Longest life of a process in seconds; longer while none finishes a cell, as on a busy machine."""


class Axe:
    """Starts studies and kills them at random moments."""

    def __init__(self, folder: Path, bundle: Path, seed: int) -> None:
        self._folder, self._bundle, self._random = folder, bundle, random.Random(seed)
        self.studies, self.kills, self._window = 0, 0, WINDOW
        self._renew()

    def _renew(self) -> None:
        folder = self._folder / str(self.studies)  # without databases: kills hit their making, too
        self.root = make_root(folder, self._bundle, trials=TRIALS, databases=False)
        self.studies += 1
        self._lives = self._done = 0

    def life(self) -> bool:
        """Run one process, and kill it within seconds of its first write. Returns whether it ended
        before that. Every other process has workers; then either the parent is killed, or all."""
        self._lives += 1
        workers = ("--workers", "2") if self._lives % 2 else ()
        process = Command(self.root, "study", "tiny", *workers, new_session=True)
        before, begun = self._signs(), time.monotonic()
        while process.poll() is None and self._signs() == before and time.monotonic() < begun + 60:
            time.sleep(0.01)
        end = time.monotonic() + self._random.uniform(0, self._window)
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        done = done_cells(self.root / "mlruns")
        self._window = WINDOW if done > self._done else 1.5 * self._window
        self._done = done
        if process.poll() is not None:
            assert process.returncode == 0, process.communicate()[1]
            return True
        kill = os.killpg if self._random.random() < 0.5 else os.kill
        kill(process.pid, signal.SIGKILL)
        self.kills += 1
        process.wait()
        return False

    def _signs(self) -> int:
        """Bytes in the databases, which grow with every write."""
        total = 0
        for path in (self.root / "mlruns").glob("*.db*"):
            with suppress(FileNotFoundError):  # a journal comes and goes
                total += path.stat().st_size
        return total

    def finish(self) -> None:
        ablate(self.root, "study", "tiny")

    def next_study(self) -> None:
        self._renew()


def assert_whole(root: Path, whole: Path) -> None:
    """The same trials and the same bits as in `whole`, every cell once, nothing left RUNNING."""
    assert timeless(results(root)) == timeless(results(whole))
    workspace = Workspace(root)
    all_runs = runs(root)
    assert "RUNNING" not in {each.info.status for each in all_runs}
    done = Counter(
        (each.data.tags["ablate.trial"], each.data.tags["ablate.seed"])
        for each in all_runs
        if each.data.tags["ablate.kind"] == "cell" and each.info.status == "FINISHED"
    )
    assert set(done) == {(str(n), s) for n in range(TRIALS) for s in "01"}
    assert set(done.values()) == {1}
    (name,) = optuna.get_all_study_names(workspace.search_url)
    trials = optuna.load_study(study_name=name, storage=workspace.search_url).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * TRIALS


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(5, marks=pytest.mark.long, id="5 kills"),
        pytest.param(100, marks=pytest.mark.slow, id="100 kills"),
    ],
)
def test_kills_at_random_moments_leave_no_trace(
    kills: int, whole: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    axe = Axe(tmp_path, tiny_bundle, seed=kills)
    while axe.kills < kills:
        if axe.life():
            assert_whole(axe.root, whole)
            axe.next_study()
    axe.finish()
    assert_whole(axe.root, whole)


# --- errors that waiting does not solve ---------------------------------------------------------


def assert_refused(root: Path, *words: str, workers: int = 1) -> None:
    """One line, exit code 2, no traceback."""
    done = ablate(root, "study", "tiny", "--workers", str(workers), check=False)
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert all(word in lines[0] for word in words), lines[0]


def test_a_bundle_that_breaks_in_mid_study(whole: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    setup = setup_of(root)
    some = setup._replace(study=setup.study.model_copy(update={"trials": 2}))
    run(some, Workspace(root), Quiet())
    bundle = root / "tiny.safetensors"
    good = bundle.read_bytes()
    bundle.write_bytes(good[:-1000])
    assert_refused(root, "tiny.safetensors")
    flipped = bytes([good[-1000] ^ 1])
    bundle.write_bytes(good[:-1000] + flipped + good[-999:])
    assert_refused(root, "tiny.safetensors", "is damaged")
    bundle.write_bytes(good)
    ablate(root, "study", "tiny")
    assert_whole(root, whole)


def test_a_record_that_cannot_be_written(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    """The disk is full when the third cell's files are written: a clear error. Once there is room,
    the same command continues."""
    setup, workspace = (
        setup_of(make_root(tmp_path, tiny_bundle, trials=TRIALS)),
        Workspace(tmp_path),
    )
    real, times = MlflowClient.log_artifacts, [0]

    def full(*arguments: Any) -> None:
        times[0] += 1
        if times[0] >= 3:
            raise OSError(28, "No space left on device")
        real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_artifacts", full)
        with pytest.raises(UserError) as caught:
            run(setup, workspace, Quiet())
    said = str(caught.value)
    assert f"the disk of {tmp_path / 'mlruns'} is full (" in said
    needed = re.search(
        r"MB left; about (\d+) MB are needed in all\): make room, then the same", said
    )
    assert needed is not None
    assert int(needed[1]) >= 1
    run(setup, workspace, Quiet())
    assert_whole(tmp_path, whole)


@pytest.mark.parametrize("name", ["mlflow.db", "optuna.db"])
def test_a_database_that_may_not_grow_is_a_full_disk(
    name: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    """SQLite's own error, through SQLAlchemy, and MLflow or Optuna: never its autoflush."""
    setup, workspace = (
        setup_of(make_root(tmp_path, tiny_bundle, trials=TRIALS)),
        Workspace(tmp_path),
    )
    most = (workspace.mlruns / name).stat().st_size // 4096  # pages that it has already

    def no_room(connection: Any, _: object) -> None:
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        if Path(file).name == name:
            connection.execute(f"PRAGMA max_page_count = {most}")

    sa.event.listen(sa.Engine, "connect", no_room)
    try:
        with pytest.raises(UserError) as caught:
            run(setup, workspace, Quiet())
    finally:
        sa.event.remove(sa.Engine, "connect", no_room)
    assert f"the disk of {tmp_path / 'mlruns'} is full (" in str(caught.value)
    assert "autoflush" not in str(caught.value)
    assert caught.value.code == 2


def test_a_tracking_store_that_refuses(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle))

    def refuse(*_: object, **__: object) -> None:
        raise MlflowException("the store said no to mlflow://me:hush@host\nand more")

    monkeypatch.setattr(MlflowClient, "create_run", refuse)
    with pytest.raises(UserError) as caught:
        run(setup, Workspace(tmp_path), Quiet())
    assert "the store said no to mlflow://me:***@host; the same" in str(caught.value)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, to root as well: that takes an attribute of the file system."""
    if os.geteuid():
        folder.chmod(0o555)
    elif subprocess.run(["chattr", "+i", str(folder)], capture_output=True).returncode:
        pytest.skip("nothing is read-only to root on this file system")
    try:
        yield
    finally:
        if os.geteuid():
            folder.chmod(0o755)
        else:
            subprocess.run(["chattr", "-i", str(folder)], check=True)


def test_a_read_only_directory(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, databases=False)
    with read_only(root):
        assert_refused(root, "mlruns")
        assert_refused(root, "mlruns", workers=2)


def test_a_file_that_is_not_a_database(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle)
    (root / "mlruns" / "optuna.db").write_text("nothing of the kind, and long enough to be read")
    assert_refused(root, "not a database")


def test_a_database_that_vanishes(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is deleted after the first trial: an error at once."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle)), Workspace(tmp_path)

    class Vandal(Quiet):
        def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
            super().finished(number, state, metrics)
            (workspace.mlruns / "optuna.db").unlink(missing_ok=True)

    watcher = Vandal()
    with pytest.raises(UserError, match=r"optuna\.db is gone"):
        run(setup, workspace, watcher)
    assert watcher.states == [(0, "complete")]


def test_a_record_that_vanishes(tiny_bundle: Path, tmp_path: Path) -> None:
    """The record is deleted after the first trial: one line, and no empty one in its place that
    would hide the loss."""
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    process = Command(root, "study", "tiny")
    until(lambda: done_cells(root) >= 3, process)  # two seeds: the search knows of the first trial
    Workspace(root).record.unlink()
    _, errors = process.communicate(timeout=400)
    assert process.returncode in (2, PassingError.code), errors
    assert len([line for line in errors.strip().splitlines() if "error: " in line]) == 1
    assert "Traceback" not in errors
    assert_refused(root, "no trial")


def test_a_record_of_another_study(tiny_bundle: Path, tmp_path: Path) -> None:
    """The record was deleted, or is another server's: trials that the search counts as finished
    would be missing for good."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle)), Workspace(tmp_path)
    some = setup._replace(study=setup.study.model_copy(update={"trials": 1}))
    run(some, workspace, Quiet())
    older = workspace.record.read_bytes()
    run(setup, workspace, Quiet())
    workspace.record.write_bytes(older)
    assert_refused(tmp_path, "has 4 finished trials", "has no trial 3")
    workspace.record.unlink()
    assert_refused(tmp_path, "has no trial 3", workers=2)


def locked_error() -> BaseException:
    return sa.exc.OperationalError("select", {}, sqlite3.OperationalError("database is locked"))


def test_a_locked_database_is_waited_for() -> None:
    times = [0]

    def work() -> str:
        times[0] += 1
        if times[0] < 3:
            raise locked_error()
        return "done"

    assert patiently(work) == "done"
    with pytest.raises(PassingError, match="database is locked; the same command continues"):
        patiently(lambda: (_ for _ in ()).throw(locked_error()), patience=0.1)
    assert passes(locked_error())
    assert str(cause(locked_error())) == "database is locked"


def test_ctrl_c_ends_the_wait_for_a_database_within_a_shield() -> None:
    """Nothing is being written while a worker waits."""
    asked: list[int] = []

    def away() -> None:
        asked.append(1)
        signal.raise_signal(signal.SIGINT)
        raise locked_error()

    with pytest.raises(KeyboardInterrupt), shielded():
        patiently(away, patience=60)
    assert len(asked) == 1


def test_passwords_are_hidden_in_all_texts() -> None:
    keep_secret("postgresql://boss:s3%40cret@host/db")
    text = hide_secrets("s3%40cret s3@cret http://me:other@x/y https://x:1/z user:name")
    assert text == "*** *** http://me:***@x/y https://x:1/z user:name"
    keep_secret("postgresql://host/db?user=boss&password=qu%26ery&sslpassword=k3y")
    text = hide_secrets("qu%26ery qu&ery k3y postgresql://host/db?password=another&user=boss")
    assert text == "*** *** *** postgresql://host/db?password=***&user=boss"
