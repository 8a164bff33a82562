"""A pool of processes on this machine: results, exceptions, deaths, and its end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from ablate.experiment.executors import pool as pools
from ablate.experiment.executors.executor import (
    DEATHS,
    InProcess,
    JobError,
    KilledError,
    UnfitError,
)
from ablate.experiment.executors.parcel import do, opened, pack, sealed
from ablate.experiment.executors.pool import Pool
from tests.experiment.executors.jobs import Die, Raise, Say, Word


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    made = Pool(Word("hello"), ["cpu", "cpu"])
    yield made
    made.close()


def test_jobs_share_what_was_packed(pool: Pool) -> None:
    futures = [pool.submit(Say(number)) for number in range(6)]
    results = [future.result(60) for future in futures]
    assert [result[:2] for result in results] == [("hello on cpu", n) for n in range(6)]
    assert os.getpid() not in {process for _, _, process in results}


def test_two_jobs_at_once(pool: Pool) -> None:
    """Each waits while the other works: in two processes."""
    futures = [pool.submit(Say(n, 0.5)) for n in range(2)]
    assert len({future.result(60)[2] for future in futures}) == 2


def test_an_exception_names_its_type(pool: Pool) -> None:
    error = pool.submit(Raise("no")).exception(60)
    assert isinstance(error, JobError)
    assert str(error) == "ZeroDivisionError: no"


def test_a_job_whose_process_dies_is_done_again(pool: Pool, tmp_path: Path) -> None:
    assert pool.submit(Die(tmp_path / "deaths", 2)).result(120) == "alive"
    assert (tmp_path / "deaths").read_text() == "xxx"


def test_a_job_that_always_kills_is_given_up(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "DEATHS", 2)
    error = pool.submit(Die(tmp_path / "deaths", DEATHS)).exception(120)
    assert isinstance(error, KilledError)
    assert str(error) == ("its process was killed 2 times (SIGKILL, perhaps for lack of memory)")
    assert pool.submit(Say(1)).result(60)[1] == 1


def test_the_end_cancels_what_is_not_done() -> None:
    pool = Pool(Word("bye"), ["cpu"])
    assert pool.submit(Say(0)).result(60)
    running, waiting = pool.submit(Say(1, 60)), pool.submit(Say(2))
    while not running.running():
        time.sleep(0.01)
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 10
    with pytest.raises(CancelledError):
        waiting.result(0)
    assert isinstance(running.exception(0), KilledError)


def test_a_process_that_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(pools, "_start", start)
    pool = Pool(Word("none"), ["cpu"])
    error = pool.submit(Say(0)).exception(10)
    assert isinstance(error, OSError)
    pool.close()


def test_in_this_process_a_job_is_done_at_once() -> None:
    executor = InProcess(Word("here"))
    assert executor.submit(Say(3)).result(0) == ("here", 3, os.getpid())
    assert isinstance(executor.submit(Raise("no")).exception(0), ZeroDivisionError)


# --- parcels ------------------------------------------------------------------------------------


def test_a_damaged_parcel_is_refused() -> None:
    parcel, label = pack(Word("a"), "cpu")
    answer = do(parcel[:-2] + b"z.", label, sealed(Say(1)))
    with pytest.raises(UnfitError, match="damaged on its way"):
        opened(answer)


def test_another_version_is_refused_by_name() -> None:
    parcel, label = pack(Word("b"), "cpu")
    other = tuple((name, "0.1" if name == "ablate" else own) for name, own in label.versions)
    with pytest.raises(UnfitError, match=r"another version .*: ablate 0\.1 here, .* there"):
        opened(do(parcel, label._replace(versions=other), sealed(Say(1))))


def test_a_device_that_is_not_there_is_refused() -> None:
    parcel, label = pack(Word("c"), "cuda:99")
    with pytest.raises(UnfitError, match=r"no such device: .*cuda:99"):
        opened(do(parcel, label, sealed(Say(1))))
