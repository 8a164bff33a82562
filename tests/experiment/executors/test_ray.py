"""Studies on a real Ray cluster, three nodes on this machine: nodes, drivers and jobs that die."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.experiment import shards
from ablate.experiment.executors import on_ray
from ablate.experiment.executors.executor import Job, JobError
from ablate.experiment.executors.on_ray import OnRay
from ablate.experiment.executors.ray_cluster import Cluster
from ablate.experiment.portable import portable
from ablate.experiment.shard_files import ShardFiles, draw_shards
from ablate.experiment.worker import run
from ablate.generate.draw import draw
from ablate.metrics.extractors.extractor import extract
from tests.experiment.executors.jobs import Deadly, Raise, Replacing, Say, Shaky, Word
from tests.experiment.test_shards import MANY, small_and_deadly
from tests.support.commands import Command, ablate, environment, until
from tests.support.ray_nodes import SETTINGS, Nodes, three_nodes
from tests.support.studies import (
    TRIALS,
    Quiet,
    changed,
    done_cells,
    make_root,
    results,
    runs,
    setup_of,
    timeless,
)

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with three_nodes() as made:
        yield made


@pytest.fixture
def cluster(nodes: Nodes) -> Iterator[Cluster]:
    nodes.repair()
    connected = Cluster(nodes.address, None, None)
    yield connected
    connected.close()


def every_cell_once(root: Path, trials: int) -> bool:
    found = [each for each in runs(root) if each.data.tags["ablate.kind"] == "cell"]
    assert "RUNNING" not in {each.info.status for each in runs(root)}
    done = Counter(
        (each.data.tags["ablate.trial"], each.data.tags["ablate.seed"])
        for each in found
        if each.info.status == "FINISHED"
    )
    return done == Counter({(str(n), s): 1 for n in range(trials) for s in "01"})


def test_jobs_are_done_on_the_nodes(cluster: Cluster) -> None:
    executor = OnRay(Word("hi"), cluster)
    assert executor.slots == 3
    assert (cluster.device, cluster.needs) == ("cpu", (1.0, 0.0))
    done = [executor.submit(Say(n, 0.2)) for n in range(9)]
    found = [future.result(120) for future in done]
    assert [each[:2] for each in found] == [("hi on cpu", n) for n in range(9)]
    assert os.getpid() not in {each[2] for each in found}
    error = executor.submit(Raise("no")).exception(60)
    assert isinstance(error, JobError)
    assert str(error) == "ZeroDivisionError: no"
    running = executor.submit(Say(1, 600))
    time.sleep(1)
    executor.close()
    assert running.cancelled()


class Killing(Quiet):
    """Kills nodes as the study goes on, and adds one."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__()
        self._nodes = nodes

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
        super().finished(number, state, metrics)
        if number in (3, 9):
            self._nodes.kill()
        if number == 6:
            self._nodes.add()


def test_a_study_survives_its_nodes(
    nodes: Nodes, cluster: Cluster, tiny_bundle: Path, tmp_path: Path
) -> None:
    """40 cells. A node is killed twice, and one is added in between."""
    steps = ", ".join(str(0.5 + i / 20) for i in range(10))
    grid = ("{ low = 0.5, high = 1.0, step = 0.25 }", f"[{steps}]")
    here, there = (make_root(tmp_path / name, tiny_bundle, trials=20) for name in ("a", "b"))
    run(changed(here, grid), Workspace(here), Quiet())
    setup, watcher = changed(there, grid), Killing(nodes)
    executor = OnRay(portable(setup), cluster)
    outcome = run(setup, Workspace(there), watcher, executor)
    executor.close()
    assert outcome.failures == []
    assert watcher.states == [(n, "complete") for n in range(20)]
    assert timeless(results(there)) == timeless(results(here))
    assert every_cell_once(there, 20)


def test_the_same_command_continues_when_the_driver_is_killed(
    nodes: Nodes, whole: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    nodes.repair()
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    surroundings = environment(**SETTINGS)
    arguments = ("study", "tiny", "--ray", nodes.address)
    process = Command(root, *arguments, env=surroundings)
    until(lambda: done_cells(root) >= 4, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert "RUNNING" in {each.info.status for each in runs(root)}
    before = done_cells(root)
    ablate(root, *arguments, env=surroundings)
    assert timeless(results(root)) == timeless(results(whole))
    assert every_cell_once(root, TRIALS)
    assert before < 2 * TRIALS
    assert nodes.address not in str([each.data.tags for each in runs(root)])


def test_shards_of_a_cell_outlive_the_driver(
    nodes: Nodes, tiny_bundle: Path, tmp_path: Path
) -> None:
    """One trial of two cells, of three shards each: the driver kills itself when it has kept two,
    and the same command draws the other four."""
    nodes.repair()
    root, log = make_root(tmp_path / "root", tiny_bundle, trials=1), tmp_path / "log"
    changed(root, MANY)
    surroundings = environment(ABLATE_CACHE=str(tmp_path / "cache"), **SETTINGS)
    for writes, code in ((2, -signal.SIGKILL), (99, 0)):
        first = partial(small_and_deadly, log, writes)
        arguments = ("study", "tiny", "--ray", nodes.address)
        process = Command(root, *arguments, env=surroundings, first=first)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == code, errors
    drawn = log.read_text().split()
    assert Counter(drawn) == Counter(2 * ["0", "256", "512"])
    assert sorted(drawn[:3], key=int) == ["0", "256", "512"]
    assert every_cell_once(root, 1)
    assert list((tmp_path / "cache" / "shards").iterdir()) == []


def test_ctrl_c_cancels_what_is_in_flight(nodes: Nodes, tiny_bundle: Path, tmp_path: Path) -> None:
    nodes.repair()
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    process = Command(root, "study", "tiny", "--ray", nodes.address, env=environment(**SETTINGS))
    until(lambda: done_cells(root) >= 1, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.strip().endswith("interrupted; the same command continues")
    assert "RUNNING" not in {each.info.status for each in runs(root)}


def test_a_cell_that_raises_twice_then_works_and_one_that_always_kills_is_given_up(
    cluster: Cluster, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first cell raises twice. The second trial's process is always killed."""
    monkeypatch.setattr(on_ray, "DEATHS", 2)
    setup = setup_of(make_root(tmp_path, tiny_bundle, trials=3))
    doomed = setup.study.settings({"init": "class-average", "r": 0.75})

    def replace(number: int, job: Any) -> Job:
        if job.asked.settings == doomed:
            return Deadly(job)
        return Shaky(job, tmp_path / "tries", 2) if job.asked.seed == 0 else job

    executor, watcher = Replacing(OnRay(portable(setup), cluster), replace), Quiet()
    outcome = run(setup, Workspace(tmp_path), watcher, executor)
    executor.close()
    reason = "seed 0: its process was killed 2 times (WorkerCrashedError)"
    assert outcome.failures == [(1, reason)]
    assert watcher.states == [(0, "complete"), (1, "failed"), (2, "complete")]
    failed = Counter(
        each.data.tags["ablate.reason"]
        for each in runs(tmp_path)
        if each.info.status == "FAILED" and each.data.tags["ablate.kind"] == "cell"
    )
    assert failed == Counter({"RuntimeError: no luck": 2, reason: 1})


def test_shards_of_a_cell_have_the_bits_of_one_process(
    cluster: Cluster, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 samples in four shards, on three nodes."""
    monkeypatch.setattr(shards, "SHARD", 512)
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    settings = setup.study.settings({"init": "gaussian", "r": 0.75})
    jobs = shards.shard_jobs(settings, 0, 2000, setup.score_model.shape)
    assert len(jobs) == 4
    executor = OnRay(portable(setup), cluster)
    shard = draw_shards(jobs, executor, ShardFiles(tmp_path, setup, 1))
    executor.close()
    whole = draw(setup.score_model, setup.source, settings, 0, 2000)
    assert torch.equal(shard.drawn.pixels, whole.pixels)
    assert torch.equal(shard.features, extract(setup.extractor, whole.pixels))


def test_what_no_node_has_is_refused(nodes: Nodes) -> None:
    for cpus, gpus, device, said in (
        (None, 1.0, "auto", "--gpus-per-cell 1: no node has one"),
        (None, None, "cuda", "--gpus-per-cell 1: no node has one"),
        (None, 0.5, "cpu", "--gpus-per-cell 0.5: cells on --device cpu need none"),
        (2.0, None, "auto", "--cpus-per-cell 2: no node has more than 1"),
    ):
        with pytest.raises(UserError) as error:
            Cluster(nodes.address, cpus, gpus, device)
        assert str(error.value) == said
        assert error.value.code == 2
    half = Cluster(nodes.address, 0.5, None)
    assert OnRay(Word("half"), half).slots == 6
    half.close()
