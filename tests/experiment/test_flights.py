"""Studies whose cells are drawn by jobs: the same bits as in one process, in order of proposal."""

from __future__ import annotations

import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ablate.core.workspace import Workspace
from ablate.experiment import early_stopping
from ablate.experiment.cell import CellResult, Judge, run_cell
from ablate.experiment.cell_elsewhere import Asked, Kept, cell_elsewhere
from ablate.experiment.executors.executor import Job, KilledError, UnfitError
from ablate.experiment.executors.parcel import sealed
from ablate.experiment.executors.pool import Pool
from ablate.experiment.portable import portable
from ablate.experiment.prepare import Setup
from ablate.experiment.shard_files import ShardFiles
from ablate.experiment.worker import run
from ablate.generate.settings import Settings
from ablate.search import ledger, proposals, propose
from tests.support.studies import (
    STARTS,
    TRIALS,
    Quiet,
    changed,
    make_root,
    results,
    runs,
    setup_of,
    timeless,
)


class Threads:
    """An executor whose jobs take as long as a test says. They see each other through pickles."""

    here, local, threads = False, True, 1

    def __init__(
        self, setup: Setup, slots: int, seconds: Callable[[int], float] = lambda n: 0.0
    ) -> None:
        self.slots, self._seconds, self._setup = slots, seconds, portable(setup)
        self._threads = ThreadPoolExecutor(slots)
        self.submitted = 0

    def submit(self, job: Job) -> Future[Any]:
        self.submitted += 1
        return self._threads.submit(self._do, sealed(job), self.submitted)

    def _do(self, job: bytes, number: int) -> Any:
        setup: Setup = pickle.loads(pickle.dumps(self._setup)).on("cpu")
        result = pickle.loads(job)(setup)
        time.sleep(self._seconds(number))
        return pickle.loads(pickle.dumps(result))

    def close(self) -> None:
        self._threads.shutdown()


def every_cell_once(root: Path, trials: int) -> bool:
    found = Counter(
        (each.data.tags["ablate.trial"], each.data.tags["ablate.seed"])
        for each in runs(root)
        if each.data.tags["ablate.kind"] == "cell" and each.info.status == "FINISHED"
    )
    return found == Counter({(str(n), s): 1 for n in range(trials) for s in "01"})


def test_a_grid_has_the_same_bits_in_order_of_proposal(
    whole: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    """The first of three jobs takes longest, so that results arrive in another order."""
    setup = setup_of(make_root(tmp_path, tiny_bundle, trials=TRIALS))
    executor, watcher = Threads(setup, 3, lambda n: 0.3 * (n % 3 == 1)), Quiet()
    outcome = run(setup, Workspace(tmp_path), watcher, executor)
    executor.close()
    assert (outcome.ran, outcome.failures) == (TRIALS, [])
    assert executor.submitted == 2 * TRIALS
    assert watcher.states == [(n, "complete") for n in range(TRIALS)]
    assert abs(watcher.share - TRIALS) < 1e-9
    assert timeless(results(tmp_path)) == timeless(results(whole))
    assert every_cell_once(tmp_path, TRIALS)


@pytest.mark.long
def test_local_processes_give_the_same_bits(whole: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle, trials=TRIALS))
    pool = Pool(portable(setup), ["cpu"] * 4)
    try:
        run(setup, Workspace(tmp_path), Quiet(), pool)
    finally:
        pool.close()
    assert timeless(results(tmp_path)) == timeless(results(whole))
    assert every_cell_once(tmp_path, TRIALS)


def drained(setup: Setup, settings: Settings, judge: Judge | None = None) -> CellResult:
    """A cell by jobs, as another process does them."""
    asked = Asked(settings, 0, setup.study.samples)
    folder = tempfile.TemporaryDirectory()
    steps, jobs = cell_elsewhere(setup, asked, judge, ShardFiles(Path(folder.name), setup, 1)), 0
    answer: Any = None
    while True:
        try:
            asks = steps.send(answer)
        except StopIteration as end:
            result: CellResult = end.value
            assert jobs >= 1
            return result
        assert asks is not None
        jobs += len(asks)
        answer = [answered(setup, job) for job in asks]


def answered(setup: Setup, asked: Job | Kept) -> Any:
    """The result of a job, or None if it is taken."""
    job = asked.job if isinstance(asked, Kept) else asked
    result = pickle.loads(pickle.dumps(pickle.loads(sealed(job))(setup)))
    return asked.take(result) if isinstance(asked, Kept) else result


def assert_same(mine: CellResult, theirs: CellResult) -> None:
    """What the record keeps of a cell."""
    for cell in (mine, theirs):
        cell.metrics.pop("seconds")
    assert mine.metrics == theirs.metrics
    assert (mine.rungs, mine.state, mine.reason) == (theirs.rungs, theirs.state, theirs.reason)
    assert torch.equal(mine.features, theirs.features)
    assert torch.equal(mine.drawing.pixels[:64], theirs.drawing.pixels[:64])
    assert torch.equal(mine.drawing.strip, theirs.drawing.strip)


def test_a_cell_in_jobs_is_the_cell_in_one_process(tiny_bundle: Path, tmp_path: Path) -> None:
    """Complete, with rungs inside a batch and at its end, pruned at either, and diverged."""
    root = make_root(tmp_path, tiny_bundle)
    setup = changed(root, ("samples = 40", "samples = 200\nrungs = [70, 128]"))
    settings = setup.study.settings({"init": "gaussian", "r": 0.75})

    def never(features: torch.Tensor) -> str | None:
        return None

    def late(features: torch.Tensor) -> str | None:
        return "worse" if len(features) == 128 else None

    for judge in (None, never, late, lambda features: "at once"):
        here, there = run_cell(setup, settings, 0, judge=judge), drained(setup, settings, judge)
        assert there.state == ("pruned" if judge not in (None, never) else "complete")
        if there.state == "complete":
            assert there.panel is not None
            assert len(there.drawing.pixels) == 64
        assert_same(there, here)
    wild = Settings(sampler="asams", init="gaussian", sigma=0.8, levels=5, r=60.0)
    diverged = drained(setup, wild, never)
    assert diverged.state == "diverged"
    assert_same(diverged, run_cell(setup, wild, 0, judge=never))


def test_a_search_that_learns_depends_on_those_in_flight_and_not_on_time(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TPE with pruning, two trials in flight: which of them is faster changes nothing, and of the
    other one the proposal knows that it is running."""
    monkeypatch.setattr(proposals, "RANDOM", 1)
    monkeypatch.setattr(early_stopping, "ONE_IN", 10**9)
    seen: list[list[str]] = []

    def spy(study: Any, n: int, history: Any) -> Any:
        seen.append([trial.state.name for trial in history])
        return propose(study, n, history)

    monkeypatch.setattr(ledger, "propose", spy)
    found = []
    for name, slow in (("odd", 1), ("even", 0)):
        root = make_root(tmp_path / name, tiny_bundle, "tpe", trials=6)
        setup = changed(root, STARTS, ("samples = 40", "samples = 256\nrungs = [64]"))
        executor = Threads(setup, 2, partial(late_if, slow))
        run(setup, Workspace(root), Quiet(), executor)
        executor.close()
        found.append(timeless(results(root)))
    assert found[0] == found[1]
    assert seen[:6] == seen[6:]
    assert [states.count("RUNNING") for states in seen[:6]] == [0, 1, 1, 1, 1, 1]
    assert [len(states) for states in seen[:6]] == list(range(6))


def late_if(rest: int, number: int) -> float:
    """Seconds: some for every second job."""
    return 0.3 * (number % 2 == rest)


class Broken(Threads):
    """Fails at some jobs, by their number."""

    errors: dict[int, Exception]

    def _do(self, job: bytes, number: int) -> Any:
        if (error := self.errors.get(number)) is not None:
            raise error
        return super()._do(job, number)


def test_jobs_that_raise_are_done_again_and_those_that_kill_are_not(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle, trials=2))
    executor, watcher = Broken(setup, 1), Quiet()
    executor.errors = {
        1: RuntimeError("first"),
        2: RuntimeError("second"),
        4: KilledError("its process was killed 10 times"),
    }
    outcome = run(setup, Workspace(tmp_path), watcher, executor)
    executor.close()
    assert outcome.failures == [(1, "seed 0: its process was killed 10 times")]
    assert watcher.states == [(0, "complete"), (1, "failed")]
    failed = [run for run in runs(tmp_path) if run.data.tags.get("ablate.state") == "failed"]
    reasons = Counter(run.data.tags["ablate.reason"] for run in failed)
    assert reasons["RuntimeError: first"] == reasons["RuntimeError: second"] == 1
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}


def test_processes_that_do_not_fit_end_the_study(tiny_bundle: Path, tmp_path: Path) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle, trials=2))
    executor = Broken(setup, 1)
    executor.errors = {1: UnfitError("a worker has another version")}
    with pytest.raises(UnfitError, match="another version"):
        run(setup, Workspace(tmp_path), Quiet(), executor)
    executor.close()
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}


class Interrupted(Threads):
    """Ctrl-C comes while the fourth job is submitted and two are in flight."""

    def submit(self, job: Job) -> Future[Any]:
        if self.submitted == 4:
            raise KeyboardInterrupt
        return super().submit(job)


def test_ctrl_c_with_trials_in_flight_leaves_everything_consistent(
    whole: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle, trials=TRIALS))
    interrupted = Interrupted(setup, 3)
    with pytest.raises(KeyboardInterrupt):
        run(setup, Workspace(tmp_path), Quiet(), interrupted)
    interrupted.close()
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}
    executor = Threads(setup, 3)
    run(setup, Workspace(tmp_path), Quiet(), executor)
    executor.close()
    assert timeless(results(tmp_path)) == timeless(results(whole))
    assert every_cell_once(tmp_path, TRIALS)
