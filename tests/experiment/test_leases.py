"""Leases: one owner at a time, and free again when that owner is gone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from ablate.experiment.leases import LEASES, METADATA, Leases
from ablate.search.database import connect
from tests.support.servers import postgres, postgres_programs


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if postgres_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres() as running:
        yield running.url


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "SQLite":
        yield f"sqlite:///{tmp_path / 'leases.db'}"
        return
    server: str = request.getfixturevalue("server")
    METADATA.drop_all(connect(server))
    yield server


def test_one_owner_at_a_time(url: str) -> None:
    first, second = Leases(url, "s"), Leases(url, "s")
    assert first.take("trial/0")
    assert first.take("trial/0")  # its own
    assert not second.take("trial/0")
    assert second.take("trial/1")
    assert (first.others("trial/"), second.others("trial/")) == ({"trial/1"}, {"trial/0"})
    assert not second.renew("trial/0")
    first.release("trial/0")
    assert second.take("trial/0")
    assert not first.renew("trial/0")
    assert Leases(url, "another").take("trial/0")


def test_an_expired_lease_is_free(url: str) -> None:
    """The owner is out of touch: its heartbeat does not reach the database."""
    first, second = Leases(url, "s", lasts=0.2), Leases(url, "s", lasts=60)
    assert first.take("trial/0")
    first._stop.set()
    assert not second.take("trial/0")
    time.sleep(0.3)
    assert second.take("trial/0")
    assert not first.renew("trial/0")


def test_a_heartbeat_keeps_it(url: str) -> None:
    first, second = Leases(url, "s", lasts=0.4), Leases(url, "s")
    assert first.take("trial/0")
    time.sleep(1.2)
    assert not second.take("trial/0")
    first.close()
    assert second.take("trial/0")


DIES = """
import os, sys
from ablate.experiment.leases import Leases
print(Leases(sys.argv[1], "s").take("trial/0"), flush=True)
os._exit(9)
"""


def test_an_owner_out_of_touch_finds_out(url: str) -> None:
    """For half its time a lease cannot have expired; after that the database is asked."""
    first, second = Leases(url, "s", lasts=0.4), Leases(url, "s", lasts=60)
    first._stop.set()
    assert first.take("trial/0")
    assert first.holds("trial/0")
    time.sleep(0.5)
    assert second.take("trial/0")
    assert not first.holds("trial/0")
    assert second.holds("trial/0")


def test_a_process_that_is_gone_holds_nothing(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, url], capture_output=True, text=True)
    assert done.stdout.strip() == "True"
    second = Leases(url, "s")
    assert second.others("trial/") == set()
    assert second.take("trial/0")


def test_of_many_that_ask_at_once_one_gets_it(url: str) -> None:
    everybody = [Leases(url, "s") for _ in range(8)]
    for item in map(str, range(10)):
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(lambda leases: leases.take(item), everybody)) == 1  # noqa: B023


def test_turns_do_not_overlap(url: str) -> None:
    everybody = [Leases(url, "s") for _ in range(4)]
    inside: list[int] = []
    most: list[int] = []

    def turn(leases: Leases) -> None:
        for _ in range(5):
            with leases.alone():
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.002)
                inside.pop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(turn, everybody))
    assert len(most) == 20
    assert set(most) == {1}


def test_leases_of_the_dead_are_swept_away(url: str) -> None:
    """In every study: one that has expired, one of a process that is gone; not one that lives."""
    subprocess.run([sys.executable, "-c", DIES, url], capture_output=True)
    living, expired = Leases(url, "another"), Leases(url, "third", lasts=0.1)
    assert living.take("trial/7")
    expired._stop.set()
    assert expired.take("trial/8")
    time.sleep(0.2)
    Leases(url, "fourth").sweep()
    with connect(url).connect() as connection:
        assert [row.item for row in connection.execute(sa.select(LEASES))] == ["trial/7"]
    assert living.renew("trial/7")
