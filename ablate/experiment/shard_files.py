"""Files of finished shards, from which a killed command continues until the whole is there."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ablate.core.files import whole_file
from ablate.experiment.executors.executor import Executor
from ablate.experiment.executors.parcel import versions
from ablate.experiment.prepare import Setup
from ablate.experiment.shards import Gathered, Shard, ShardJob
from ablate.generate.draw import Stretch
from ablate.generate.settings import Settings


class ShardFiles:
    """Files of finished shards, by everything that they depend on: a folder for the study, in it
    one for each way to draw, and in that one for each cell."""

    def __init__(self, folder: Path, setup: Setup, threads: int) -> None:
        about = [2, setup.device, threads, *versions()]
        self._study = folder / "shards" / setup.identity
        self._folder = self._study / _hash(about)

    def path(self, job: ShardJob) -> Path:
        part = f"{job.first:08d}-{job.last:08d}-{_hash(job.flips)}.safetensors"
        return self._of_cell(job.settings, job.seed, job.most) / part

    def _of_cell(self, settings: Settings, seed: int, most: int) -> Path:
        return self._folder / _hash([settings.model_dump(mode="json"), seed, most])

    def write(self, job: ShardJob, shard: Shard) -> None:
        """Keep a finished shard, if that is possible: work does not end for the lack of room for
        what only a kill would make useful, nor because the same work ended elsewhere and removed
        its files."""
        with suppress(OSError, SafetensorError):
            self._write(job, shard)

    def _write(self, job: ShardJob, shard: Shard) -> None:
        drawn = shard.drawn._asdict()
        tensors = {name: part for name, part in drawn.items() if torch.is_tensor(part)}
        rest = {name: drawn[name] for name in ("first", "nfe", "reason")}
        about = json.dumps([rest, shard.seconds])
        with whole_file(self.path(job)) as scratch:
            save_file({**tensors, "features": shard.features}, scratch, {"ablate": about})

    def read(self, job: ShardJob) -> Shard | None:
        """A finished shard; None if it is missing or broken."""
        try:
            with safe_open(self.path(job), "pt") as file:
                rest, seconds = json.loads(file.metadata()["ablate"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            features = tensors.pop("features")
            absent = {"labels": None, "strip": None}
            return Shard(Stretch(**{**absent, **rest, **tensors}), features, seconds)
        except (OSError, KeyError, TypeError, ValueError, SafetensorError):
            return None

    def drop(self, settings: Settings, seed: int, most: int) -> None:
        """Remove the files of one cell, and folders that are empty then."""
        shutil.rmtree(self._of_cell(settings, seed, most), ignore_errors=True)
        with suppress(OSError):
            self._folder.rmdir()
            self._study.rmdir()

    def remove(self) -> None:
        """Remove the files of the whole study, in whatever way they were drawn, after its end."""
        shutil.rmtree(self._study, ignore_errors=True)


def _hash(what: object) -> str:
    return hashlib.sha256(json.dumps(what, default=str).encode()).hexdigest()[:16]


def draw_shards(
    jobs: list[ShardJob],
    executor: Executor,
    files: ShardFiles,
    advance: Callable[[int], None] = lambda samples: None,
) -> Shard:
    """All samples of the jobs; finished shards come from files. advance: called with the number of
    samples of each finished shard."""
    gathered = Gathered(jobs)
    todo = dict(enumerate(jobs))
    while todo:
        _do(todo, executor, files, gathered, advance)
        again = gathered.again()
        todo = {} if again is None else dict([again])
    return gathered.joined()


def _do(
    todo: dict[int, ShardJob],
    executor: Executor,
    files: ShardFiles,
    gathered: Gathered,
    advance: Callable[[int], None],
) -> None:
    """Do jobs, some more at a time than there are slots: what is not begun is not in memory."""
    running: dict[int, Future[Shard]] = {}
    for place, job in todo.items():
        if (found := files.read(job)) is not None:
            gathered.add(place, found)
            advance(job.last - job.first)
            continue
        running[place] = executor.submit(job)
        while len(running) > (0 if executor.here else 2 * executor.slots):
            _take(todo, running, files, gathered, advance)
    while running:
        _take(todo, running, files, gathered, advance)


def _take(
    todo: dict[int, ShardJob],
    running: dict[int, Future[Shard]],
    files: ShardFiles,
    gathered: Gathered,
    advance: Callable[[int], None],
) -> None:
    """Keep what is finished next."""
    wait(running.values(), return_when=FIRST_COMPLETED)
    for place in [place for place, future in running.items() if future.done()]:
        job, shard = todo[place], running.pop(place).result()
        files.write(job, shard)
        gathered.add(place, shard)
        advance(job.last - job.first)
