"""Faults put in on purpose: kills at random moments, full disks, files that vanish or change."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import optuna
import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ablate.core.errors import PassingError, UserError, hide_secrets, keep_secret
from ablate.core.signals import shielded
from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from ablate.search.database import cause, passes, patiently
from tests.support.studies import (
    TRIALS,
    Quiet,
    ablate,
    command,
    environment,
    make_root,
    results,
    setup_of,
    timeless,
)

WINDOW = 2.5
"""Seconds of a life, at most; more while lives get nothing done, as on a machine that is busy."""


class Axe:
    """Starts studies and kills them, at moments that a seed decides."""

    def __init__(self, folder: Path, bundle: Path, seed: int) -> None:
        self._folder, self._bundle, self._random = folder, bundle, random.Random(seed)
        self.studies, self.kills, self._window = 0, 0, WINDOW
        self._renew()

    def _renew(self) -> None:
        self.root = make_root(self._folder / str(self.studies), self._bundle, trials=TRIALS)
        self.studies += 1
        self._lives = self._done = 0

    def life(self) -> bool:
        """One process, killed within seconds of its first sign of life, or at its end; whether the
        study is finished. Every other time it has workers; of these either the one who started them
        is killed, or all at once."""
        self._lives += 1
        workers = ("--workers", "2") if self._lives % 2 else ()
        process = subprocess.Popen(
            command(self.root, "study", "tiny", *workers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        before, begun = self._signs(), time.monotonic()
        while process.poll() is None and self._signs() == before and time.monotonic() < begun + 60:
            time.sleep(0.01)
        end = time.monotonic() + self._random.uniform(0, self._window)
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        done = self._done_cells()
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
        """Bytes in the databases: they grow as soon as anything is done."""
        total = 0
        for path in (self.root / "mlruns").glob("*.db*"):
            with suppress(FileNotFoundError):  # a journal comes and goes
                total += path.stat().st_size
        return total

    def _done_cells(self) -> int:
        return sum("features.npz" in files for _, _, files in os.walk(self.root / "mlruns"))

    def finish(self) -> None:
        ablate(self.root, "study", "tiny")

    def next_study(self) -> None:
        self._renew()


def assert_whole(root: Path, whole: Path) -> None:
    """The same trials and the same bits; every cell once; nothing left RUNNING anywhere."""
    assert timeless(results(root)) == timeless(results(whole))
    workspace = Workspace(root)
    client = MlflowClient(workspace.tracking_uri)
    experiment = client.get_experiment_by_name("tiny")
    found = client.search_runs([experiment.experiment_id], max_results=5000)
    assert "RUNNING" not in {each.info.status for each in found}
    done = Counter(
        (each.data.tags["ablate.trial"], each.data.tags["ablate.seed"])
        for each in found
        if each.data.tags["ablate.kind"] == "cell" and each.info.status == "FINISHED"
    )
    assert set(done) == {(str(n), s) for n in range(TRIALS) for s in "01"}
    assert set(done.values()) == {1}
    (name,) = optuna.get_all_study_names(workspace.search_url)
    trials = optuna.load_study(study_name=name, storage=workspace.search_url).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * TRIALS


@pytest.mark.parametrize(
    "kills", [5, pytest.param(100, marks=pytest.mark.slow)], ids=["5 kills", "100 kills"]
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


# --- what no patience helps ---------------------------------------------------------------------


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
    """The disk is full when the third cell's files are to be written: a clear error; once there is
    room, the same command continues."""
    setup, workspace = (
        setup_of(make_root(tmp_path, tiny_bundle, trials=TRIALS)),
        Workspace(tmp_path),
    )
    real, times = MlflowClient.log_artifacts, [0]

    def full(*arguments: object) -> None:
        times[0] += 1
        if times[0] >= 3:
            raise OSError(28, "No space left on device")
        real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_artifacts", full)
        with pytest.raises(UserError, match="No space left on device; the same command continues"):
            run(setup, workspace, Quiet())
    run(setup, workspace, Quiet())
    assert_whole(tmp_path, whole)


def test_a_tracking_store_that_says_no(
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
    """To root as well, which only an attribute of the file system keeps out."""
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
    root = make_root(tmp_path, tiny_bundle)
    with read_only(root):
        assert_refused(root, "mlruns")
        assert_refused(root, "mlruns", workers=2)


def test_a_database_that_is_none(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle)
    (root / "mlruns").mkdir()
    (root / "mlruns" / "optuna.db").write_text("nothing of the kind, and long enough to be read")
    assert_refused(root, "not a database")


def test_a_database_that_vanishes(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is deleted after the first trial: said at once, not written to nowhere."""
    setup, workspace = setup_of(make_root(tmp_path, tiny_bundle)), Workspace(tmp_path)

    class Vandal(Quiet):
        def finished(self, number: int, state: str, metrics: object) -> None:
            super().finished(number, state, metrics)
            (workspace.mlruns / "optuna.db").unlink(missing_ok=True)

    watcher = Vandal()
    with pytest.raises(UserError, match=r"optuna\.db is gone"):
        run(setup, workspace, watcher)
    assert watcher.states == [(0, "complete")]


def test_a_record_that_is_another(tiny_bundle: Path, tmp_path: Path) -> None:
    """It was deleted, or the study is given another tracking server's: trials that the search holds
    finished would be missing for good."""
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
    import sqlalchemy as sa

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


def test_a_shield_does_not_keep_one_waiting_for_a_database() -> None:
    """Ctrl-C while a database is away: within a shield too, for nothing is being written."""
    asked = []

    def away() -> None:
        asked.append(signal.raise_signal(signal.SIGINT))
        raise locked_error()

    with pytest.raises(KeyboardInterrupt), shielded():
        patiently(away, patience=60)
    assert len(asked) == 1


def test_passwords_are_hidden_wherever_they_turn_up() -> None:
    keep_secret("postgresql://boss:s3%40cret@host/db")
    text = hide_secrets("s3%40cret s3@cret http://me:other@x/y https://x:1/z user:name")
    assert text == "*** *** http://me:***@x/y https://x:1/z user:name"
    keep_secret("postgresql://host/db?user=boss&password=qu%26ery&sslpassword=k3y")
    text = hide_secrets("qu%26ery qu&ery k3y postgresql://host/db?password=another&user=boss")
    assert text == "*** *** *** postgresql://host/db?password=***&user=boss"
