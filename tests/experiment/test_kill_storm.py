"""A storm of kills that hit work: in a cell, at a rung, in a write, just after a claim."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mlflow.tracking import MlflowClient

from ablate.cli.console import trial_rows
from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from tests.support.commands import Command, ablate, environment, until
from tests.support.ray_nodes import SETTINGS, three_nodes
from tests.support.servers import mlflow, postgres, postgres_programs
from tests.support.studies import (
    TRIALS,
    Quiet,
    changed,
    copy_of_record,
    litter,
    make_root,
    record_of,
    results,
    runs,
    timeless,
)
from tests.support.tripwire import CELL, WRITE, Tripwire

RUNGS = ("samples = 40", "samples = 256\nrungs = [64]")
STRIKES = [
    *[("cell", 4, 0.05), ("cell", 4, 0.05), ("cell", 2, 0.2), ("rung", 3, 0.01), ("rung", 1, 0.03)],
    *[("files", 3, 0.03), ("files", 1, 0.01), ("record", 9, 0.01), ("search", 5, 0.01)],
    ("claimed", 3, 0.01),
]
"""(place, most entries, longest delay in seconds) of a kill, drawn at random."""

ON_RAY = [
    *(("flight", most, longest) for most, longest in ((2, 0.3), (6, 0.2), (12, 0.1), (12, 0.3))),
    *(strike for strike in STRIKES if strike[0] not in ("cell", "rung")),
]
"""The same where cells are drawn elsewhere: kills of the process that proposes and records."""

INSIDE = 0.8
"""Share of the kills that must land inside a cell or a write; the others hit what is in between."""


class Place(NamedTuple):
    """Where a study is shared: at these URLs, or in its root if there are none. Where its cells are
    drawn: on the Ray cluster at this address, if there is one."""

    storage: str = ""
    tracking: str = ""
    ray: str = ""

    @property
    def surroundings(self) -> dict[str, str]:
        shared = {"ABLATE_STORAGE": self.storage, "MLFLOW_TRACKING_URI": self.tracking}
        return environment(**{name: url for name, url in shared.items() if url}, **SETTINGS)

    @property
    def arguments(self) -> list[str]:
        return ["study", "tiny", *(["--ray", self.ray] if self.ray else [])]


class Storm:
    """Keeps workers at a study, and a wire across the way of each; a study that is finished is
    checked, and another begins."""

    def __init__(self, folder: Path, bundle: Path, place: Place, workers: int) -> None:
        self._folder, self._bundle, self._place = folder, bundle, place
        self._random, self._workers = random.Random(workers), workers
        self._lives = self._studies = self.kills = 0
        self.landed: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        self.root = make_root(self._folder / f"study{self._studies}", self._bundle, trials=TRIALS)
        changed(self.root, RUNGS)
        if self._place.storage:  # a server would continue the last study: make it another
            file = self.root / "studies" / "tiny.toml"
            file.write_text(file.read_text() + f"\n[constraints]\nnfe = {100 + self._studies}\n")
        self._studies += 1

    def strike(self, most: int) -> None:
        """Let workers begin and die until `most` kills have landed; then finish the last study."""
        team: dict[Command, Tripwire] = {}
        while self.kills < most:
            while len(team) < self._workers:
                team |= [self._life()]
            ended = _ended(team)
            for process in ended:
                self._bury(process, team.pop(process))
            if any(process.returncode == 0 for process in ended):
                self._close(team)
                self._begin()
        self._close(team)

    def _life(self) -> tuple[Command, Tripwire]:
        place, most, longest = self._random.choice(ON_RAY if self._place.ray else STRIKES)
        times, delay = self._random.randint(1, most), self._random.uniform(0, longest)
        wire = Tripwire(place, times, delay, self._folder / f"life{self._lives}")
        self._lives += 1
        surroundings = self._place.surroundings
        return Command(self.root, *self._place.arguments, env=surroundings, first=wire.lay), wire

    def _bury(self, process: Command, wire: Tripwire) -> None:
        if process.returncode == 0:
            return
        assert process.returncode == -signal.SIGKILL, process.communicate()
        self.kills += 1
        self.landed[wire.landed()] += 1
        if self._workers == 1 and wire.landed() in CELL and not self._place.tracking:
            open_cells = [each for each in runs(self.root) if each.info.status == "RUNNING"]
            assert "cell" in {each.data.tags["ablate.kind"] for each in open_cells}

    def _close(self, team: dict[Command, Tripwire]) -> None:
        """Let everybody end, finish the study by one more worker, and check it."""
        while team:
            process, wire = team.popitem()
            process.wait()
            self._bury(process, wire)
        ablate(self.root, *self._place.arguments, env=self._place.surroundings)
        self._check()

    def _check(self) -> None:
        """Every trial is there with each of its cells once, and nothing else is left."""
        workspace = Workspace(self.root, self._place.storage, self._place.tracking)
        record = record_of(workspace)
        assert [trial.number for trial in record.trials] == list(range(TRIALS))
        assert {trial.state for trial in record.trials} <= {"complete", "pruned"}
        of_study = f"tags.`ablate.hash` = '{record.hash}'"
        client = MlflowClient(workspace.tracking_uri)
        experiment = client.get_experiment_by_name("tiny")
        assert experiment is not None
        found = client.search_runs([experiment.experiment_id], of_study, max_results=5000)
        assert "RUNNING" not in {each.info.status for each in found}
        cells = Counter(
            (each.data.tags["ablate.trial"], each.data.tags["ablate.seed"])
            for each in found
            if each.data.tags["ablate.kind"] == "cell" and each.info.status == "FINISHED"
        )
        assert set(cells.values()) == {1}
        if not self._place.tracking:
            assert litter(self.root) == []

    def rows(self) -> list[dict[str, Any]]:
        """The results of the last study."""
        workspace = Workspace(self.root, self._place.storage, self._place.tracking)
        return timeless(trial_rows(record_of(workspace)))


def _ended(team: Collection[Command]) -> list[Command]:
    """Those that have ended, as soon as one has."""
    until(lambda: any(process.poll() is not None for process in team))
    return [process for process in team if process.poll() is not None]


@contextmanager
def servers(folder: Path) -> Iterator[Place]:
    folder.mkdir()
    copy_of_record(folder / "mlflow.db")
    with postgres() as database, mlflow(folder) as record:
        yield Place(database.new_database(), record.url)


def place_of(database: str, folder: Path) -> AbstractContextManager[Place]:
    """Where the study of a test is."""
    if database == "PostgreSQL":
        if postgres_programs() is None:
            pytest.skip("needs PostgreSQL")
        return servers(folder)
    if database == "Ray":
        pytest.importorskip("ray")
        return cluster()
    return nullcontext(Place())


@contextmanager
def cluster() -> Iterator[Place]:
    with three_nodes() as nodes:
        yield Place(ray=nodes.address)


@pytest.fixture(scope="module")
def calm(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of the study without a kill, by one worker."""
    root = make_root(tmp_path_factory.mktemp("calm") / "root", tiny_bundle, trials=TRIALS)
    run(changed(root, RUNGS), Workspace(root), Quiet())
    return timeless(results(root))


STORMS = [
    pytest.param(5, 1, "SQLite", marks=pytest.mark.long, id="5 kills of one worker, SQLite"),
    *(
        pytest.param(
            30, workers, place, marks=pytest.mark.slow, id=f"30 kills of {workers}, {place}"
        )
        for workers in (1, 4)
        for place in ("SQLite", "PostgreSQL")
    ),
    pytest.param(5, 1, "Ray", marks=pytest.mark.ray, id="5 kills of a driver, Ray"),
    pytest.param(30, 1, "Ray", marks=pytest.mark.slow, id="30 kills of a driver, Ray"),
]


@pytest.mark.parametrize(("kills", "workers", "database"), STORMS)
def test_a_storm_of_kills_that_hit_work_leaves_no_trace(
    kills: int,
    database: str,
    workers: int,
    calm: list[dict[str, Any]],
    tiny_bundle: Path,
    tmp_path: Path,
) -> None:
    """Five times 30 kills are 150, of which 120 land inside a cell or a write. With one worker the
    results are those without kills, bit by bit; with four and on Ray, which trials are pruned
    depends on who was first, and those that are not have the same bits."""
    with place_of(database, tmp_path / "servers") as where:
        storm = Storm(tmp_path, tiny_bundle, where, workers)
        storm.strike(kills)
        rows = storm.rows()
    inside = sum(storm.landed[each] for each in (*CELL, *WRITE))
    print(f"{storm.kills} kills, {inside} inside: {dict(storm.landed)}")
    assert storm.kills >= kills
    assert inside >= INSIDE * storm.kills, storm.landed
    assert sum(storm.landed[each] for each in CELL) > 0
    assert sum(storm.landed[each] for each in WRITE) > 0
    if workers == 1 and database != "Ray":
        assert rows == calm
    whole = {row["number"]: row for row in calm if row["state"] == "complete"}
    same = [row for row in rows if row["state"] == "complete" and row["number"] in whole]
    assert same
    assert all(row == whole[row["number"]] for row in same)
