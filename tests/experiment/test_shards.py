"""Many samples in shards: the bits of one process, kept over a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ablate.core.workspace import Workspace
from ablate.experiment import cell_elsewhere, shards
from ablate.experiment.cell import run_cell
from ablate.experiment.executors.executor import InProcess
from ablate.experiment.prepare import Setup
from ablate.experiment.shard_files import ShardFiles, draw_shards
from ablate.experiment.shards import SHARD, ShardJob, shard_jobs, too_many_flips
from ablate.experiment.worker import run
from ablate.generate.draw import BATCH, draw, drawing_of
from ablate.generate.settings import Settings
from ablate.metrics.extractors.extractor import extract
from tests.experiment.test_flights import Threads, assert_same, drained
from tests.support.commands import Command, ablate, command, environment
from tests.support.studies import Quiet, changed, make_root, results, setup_of, timeless

SMALL = 256
"""Samples of a shard here: whole batches of drawing and of extraction, as SHARD is."""


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (shards, cell_elsewhere):
        monkeypatch.setattr(module, "SHARD", SMALL)


def adls(**knobs: object) -> Settings:
    given = {"sampler": "adls", "init": "gaussian", "sigma": 0.8, "levels": 4, **knobs}
    return Settings.model_validate(given)


def test_a_shard_is_whole_batches(tiny_bundle: Path, tmp_path: Path) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    for batch in (BATCH, setup.extractor.batch, 32):  # 32 is the Inception's
        assert SHARD % batch == SMALL % batch == 0


def test_joined_shards_are_the_samples_of_one_process(
    small_shards: None, tiny_bundle: Path, tmp_path: Path
) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    most, settings = 2 * SMALL + 70, adls(sampler="asams")
    jobs = shard_jobs(settings, 3, most, setup.score_model.shape)
    assert [(job.first, job.last) for job in jobs] == [(0, 256), (256, 512), (512, most)]
    files = ShardFiles(tmp_path, setup, 1)
    told: list[int] = []
    drawn, features, _ = draw_shards(jobs, InProcess(setup), files, told.append)
    whole = draw(setup.score_model, setup.source, settings, 3, most)
    for mine, theirs in zip(drawing_of(drawn, most), whole, strict=True):
        same: Any = torch.equal if isinstance(mine, torch.Tensor) else lambda a, b: a == b
        assert same(mine, theirs)
    assert torch.equal(features, extract(setup.extractor, whole.pixels))
    assert sum(told) == most


def test_finished_shards_are_not_drawn_again(
    small_shards: None, tiny_bundle: Path, tmp_path: Path
) -> None:
    """The second shard's process is killed; the next command draws that and the third alone. A
    broken file counts as none, and so do those of other settings."""
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    jobs = shard_jobs(adls(), 0, 3 * SMALL, setup.score_model.shape)
    files = ShardFiles(tmp_path, setup, 1)
    done: list[int] = []

    class Counted(InProcess):
        def submit(self, job: Any) -> Any:
            if len(done) == 1:
                done.append(-1)
                raise KeyboardInterrupt
            done.append(job.first)
            return super().submit(job)

    with pytest.raises(KeyboardInterrupt):
        draw_shards(jobs, Counted(setup), files)
    again = draw_shards(jobs, Counted(setup), files)
    assert done == [0, -1, 256, 512]
    files.path(jobs[1]).write_bytes(b"half a fi")
    once_more = draw_shards(jobs, Counted(setup), files)
    assert done[4:] == [256]
    assert torch.equal(again.drawn.pixels, once_more.drawn.pixels)
    assert torch.equal(again.features, once_more.features)
    assert files.read(replace(jobs[0], seed=1)) is None
    assert ShardFiles(tmp_path, setup, 2).read(jobs[0]) is None
    files.remove()
    assert files.read(jobs[0]) is None


@pytest.mark.parametrize("wild", [{"r": 60.0}, {"r": 4.0, "levels": 12}])
def test_a_cell_that_diverges_ends_where_it_does_in_one_process(
    wild: dict[str, Any], small_shards: None, tiny_bundle: Path, tmp_path: Path
) -> None:
    root = make_root(tmp_path, tiny_bundle)
    setup = changed(root, ("samples = 40", f"samples = {2 * SMALL}"))
    settings = adls(sampler="asams", **wild)
    mine, theirs = drained(setup, settings), run_cell(setup, settings, 0)
    assert theirs.state == "diverged"
    assert len(mine.drawing.pixels) == len(theirs.drawing.pixels)
    assert_same(mine, theirs)


def test_flips_of_earlier_shards_count(tiny_bundle: Path, tmp_path: Path) -> None:
    """Each shard stays below the limit, both together do not: the second is drawn again with what
    the first has left, and stops at the step at which one process would have."""
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    settings = adls(sampler="asams", levels=12)
    job = ShardJob(settings, 0, 0, SMALL, 2 * SMALL, float("inf"))
    first, second = job(setup), replace(job, first=SMALL, last=2 * SMALL)(setup)
    counts = [float(each.drawn.flipped.sum()) for each in (first, second)]
    assert min(counts) > 1
    limit = max(counts) + 1
    jobs = [replace(job, flips=limit), replace(job, first=SMALL, last=2 * SMALL, flips=limit)]
    again = too_many_flips(jobs, [first, second])
    assert again == (1, replace(jobs[1], flips=limit - counts[0]))
    stopped = again[1](setup)
    assert "changed sign" in str(stopped.drawn.reason)
    assert too_many_flips([jobs[0], again[1]], [first, stopped]) is None


def test_a_study_of_many_samples_has_the_same_bits(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one piece, in shards in this process, and in shards elsewhere."""
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    found = []
    for name, slots in (("whole", 0), ("here", 0), ("there", 3)):
        if name == "here":
            for module in (shards, cell_elsewhere):
                monkeypatch.setattr(module, "SHARD", SMALL)
        root = make_root(tmp_path / name, tiny_bundle, trials=2)
        setup: Setup = changed(root, ("samples = 40", f"samples = {2 * SMALL + 9}"))
        executor = Threads(setup, slots) if slots else None
        watcher = Quiet()
        run(setup, Workspace(root), watcher, executor)
        if executor is not None:
            executor.close()
            assert executor.submitted == 2 * 2 * 3  # trials, seeds, shards
        found.append(timeless(results(root)))
        assert abs(watcher.share - 2) < 1e-9
    assert found[0] == found[1] == found[2]
    assert list((tmp_path / "cache" / "shards").iterdir()) == []


@pytest.mark.long
def test_evaluate_by_workers_prints_the_same_numbers(tmp_path: Path) -> None:
    """In new Pythons: processes that a test forks may not have children."""
    surroundings = environment(ABLATE_CACHE=str(tmp_path / "cache"))

    def evaluate(*more: str) -> subprocess.CompletedProcess[str]:
        arguments = ("--extractor", "digits", "--json", "--no-log", *more)
        line = command(tmp_path, "evaluate", *arguments)
        return subprocess.run(line, env=surroundings, capture_output=True, text=True, check=False)

    drawn = ("digits", "--samples", "1500", "--set", "levels=4")
    here, there = evaluate(*drawn), evaluate(*drawn, "--workers", "2")
    assert here.returncode == there.returncode == 0, there.stderr
    assert json.loads(here.stdout)["metrics"] == json.loads(there.stdout)["metrics"]
    assert list((tmp_path / "cache" / "shards").iterdir()) == []
    refused = evaluate("digits/test", "--workers", "2")
    assert refused.returncode == 2
    assert refused.stderr == "error: --workers: digits/test is not a bundle\n"


MANY = ("samples = 40", f"samples = {2 * SMALL + 9}")
"""For `changed`: samples of three shards."""


def test_a_killed_study_continues_within_its_cell(tiny_bundle: Path, tmp_path: Path) -> None:
    """One trial of two cells: the first is recorded when the process dies, and its shards are
    dropped; of the second one shard is drawn, and not again."""
    for name in ("whole", "killed"):
        changed(make_root(tmp_path / name, tiny_bundle, trials=1), MANY)
    ablate(tmp_path / "whole", "study", "tiny")
    root, log = tmp_path / "killed", tmp_path / "log"
    surroundings = environment(ABLATE_CACHE=str(tmp_path / "cache"))
    for writes, kept in ((4, ["00000000"]), (99, [])):
        first = partial(small_and_deadly, log, writes)
        process = Command(root, "study", "tiny", env=surroundings, first=first)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == (-signal.SIGKILL if kept else 0), errors
        files = (tmp_path / "cache" / "shards").rglob("*.safetensors")
        assert [file.name.partition("-")[0] for file in files] == kept
    assert log.read_text().split() == 2 * ["0", "256", "512"]
    assert timeless(results(root)) == timeless(results(tmp_path / "whole"))
    assert list((tmp_path / "cache" / "shards").iterdir()) == []


def small_and_deadly(log: Path, writes: int) -> None:
    """In a command's process: shards are small, and it kills itself after so many of them."""
    write = ShardFiles.write
    for module in (shards, cell_elsewhere):
        pytest.MonkeyPatch().setattr(module, "SHARD", SMALL)

    def counted(self: ShardFiles, job: ShardJob, shard: shards.Shard) -> None:
        write(self, job, shard)
        with log.open("a") as file:
            file.write(f"{job.first} ")
        if len(log.read_text().split()) == writes:
            os.kill(os.getpid(), signal.SIGKILL)

    ShardFiles.write = counted  # type: ignore[method-assign]


def test_samples_of_a_bundle_continue_after_a_kill(tmp_path: Path) -> None:
    """The picture and the numbers are those of one process that drew all at once."""
    arguments = ("bundle", "sample", "digits", "--samples", str(2 * SMALL + 70), "--levels", "4")
    whole = json.loads(ablate(tmp_path / "whole", *arguments, "--json").stdout)
    cache, log, root = tmp_path / "cache", tmp_path / "log", tmp_path / "root"
    surroundings = environment(ABLATE_CACHE=str(cache))
    for writes, code in ((1, -signal.SIGKILL), (9, 0)):
        first = partial(small_and_deadly, log, writes)
        process = Command(root, *arguments, "--json", env=surroundings, first=first)
        printed, errors = process.communicate(timeout=300)
        assert process.returncode == code, errors
        assert len(list((cache / "shards").rglob("*.safetensors"))) == (1 if code else 0)
    assert log.read_text().split() == ["0", "256", "512"]
    assert same_but_for_time(json.loads(printed), whole)


def same_but_for_time(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether two `bundle sample --json` printed the same numbers and drew the same picture."""
    pictures = [Path(each.pop("picture")).read_bytes() for each in (mine, theirs)]
    for each in (mine, theirs):
        each["metrics"].pop("seconds")
    return mine == theirs and pictures[0] == pictures[1]


@pytest.mark.long
def test_samples_of_a_bundle_by_workers_are_those_of_one(tmp_path: Path) -> None:
    """In new Pythons, as above."""
    surroundings = environment(ABLATE_CACHE=str(tmp_path / "cache"))
    found = []
    for workers in ("1", "2"):
        arguments = ("bundle", "sample", "digits", "--samples", "1500", "--levels", "4", "--json")
        line = command(tmp_path / workers, *arguments, "--workers", workers)
        done = subprocess.run(line, env=surroundings, capture_output=True, text=True, check=True)
        assert "1500/1500 images" in done.stderr
        found.append(json.loads(done.stdout))
    assert same_but_for_time(*found)
    assert list((tmp_path / "cache" / "shards").iterdir()) == []
