"""Many samples of one configuration and seed, drawn in shards, each wherever there is room.

Sample i depends on (seed, i) alone, and a shard is whole batches of drawing and of extraction, so
that joined shards have the bits of one process. Finished shards are kept in files until the whole
is there; a killed command continues from them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ablate.core.files import whole_file
from ablate.experiment.executors.executor import Executor
from ablate.experiment.executors.parcel import versions
from ablate.experiment.prepare import Setup
from ablate.generate.draw import Sampling, Stretch, most_flips
from ablate.generate.settings import Settings
from ablate.metrics.extractors.extractor import extract

SHARD = 1024
"""Samples of a shard: a multiple of the batches in which images are drawn, 64, and in which
extractors see them, 32 and 256."""


class Shard(NamedTuple):
    """Some samples of a cell, with their features."""

    drawn: Stretch
    features: Tensor  # float32, [n, f]: what is measured must not depend on the cut
    seconds: float


@dataclass(frozen=True)
class ShardJob:
    """Draws samples `first` to `last` of `most`, and makes their features."""

    settings: Settings
    seed: int
    first: int
    last: int
    most: int
    flips: float  # pixels that may change sign before the shard counts as diverged

    def __call__(self, setup: Setup) -> Shard:
        began, score = time.perf_counter(), setup.score_model
        nothing = torch.empty(0, *score.shape, dtype=torch.uint8)
        numbers = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
        labels = torch.empty(0, dtype=torch.int64)
        begin = Stretch(self.first, nothing, *numbers, labels, None, 0, None)
        sampling = Sampling(
            *(score, setup.source, self.settings, self.seed, self.most, setup.device),
            begun=begin,
            flips=self.flips,
        )
        drawn = sampling.stretch_to(self.last)
        seconds = time.perf_counter() - began
        return Shard(compact(drawn), extract(setup.extractor, drawn.pixels), seconds)


def compact(drawn: Stretch) -> Stretch:
    """The same in memory of its own: a view would be sent with all that it is a view of."""
    return drawn._replace(
        pixels=drawn.pixels.clone(),
        clamped=drawn.clamped.clone(),
        flipped=drawn.flipped.clone(),
        labels=None if drawn.labels is None else drawn.labels.clone(),
    )


def shard_jobs(settings: Settings, seed: int, most: int, shape: Sequence[int]) -> list[ShardJob]:
    """The shards of so many samples."""
    flips = most_flips(most, shape)
    return [
        ShardJob(settings, seed, first, min(first + SHARD, most), most, flips)
        for first in range(0, most, SHARD)
    ]


def too_many_flips(
    jobs: Sequence[ShardJob], shards: Sequence[Shard]
) -> tuple[int, ShardJob] | None:
    """The first shard that one process would have stopped earlier, because of the pixels that
    changed sign in the shards before it, and the job that stops there; None if there is none."""
    left = jobs[0].flips
    for place, (job, shard) in enumerate(zip(jobs, shards, strict=True)):
        flipped = float(shard.drawn.flipped.sum())
        if flipped > left and job.flips > left:
            return place, replace(job, flips=left)
        left -= flipped
        if shard.drawn.reason is not None:
            return None
    return None


def joined(shards: Sequence[Shard]) -> Shard:
    """All samples, up to the shard that diverged, if any."""
    diverged = (place for place, shard in enumerate(shards) if shard.drawn.reason is not None)
    parts = shards[: next(diverged, len(shards) - 1) + 1]
    first, stretches = parts[0].drawn, [shard.drawn for shard in parts]
    drawn = Stretch(
        first.first,
        torch.cat([each.pixels for each in stretches]),
        torch.cat([each.clamped for each in stretches]),
        torch.cat([each.flipped for each in stretches]),
        None if first.labels is None else torch.cat([_labels(each) for each in stretches]),
        first.strip,
        first.nfe,
        stretches[-1].reason,
    )
    features = torch.cat([shard.features for shard in parts])
    return Shard(drawn, features, sum(shard.seconds for shard in parts))


def _labels(drawn: Stretch) -> Tensor:
    assert drawn.labels is not None
    return drawn.labels


# --- with files, for a command ------------------------------------------------------------------


class ShardFiles:
    """Files of finished shards, by everything that they depend on."""

    def __init__(self, folder: Path, setup: Setup, threads: int) -> None:
        about = [1, setup.identity, setup.device, threads, *versions()]
        self._about, self._folder = about, folder / "shards" / _hash(about)

    def path(self, job: ShardJob) -> Path:
        what = [job.settings.model_dump(mode="json"), *(getattr(job, name) for name in NUMBERS)]
        return self._folder / f"{job.first:08d}-{_hash(what)}.safetensors"

    def write(self, job: ShardJob, shard: Shard) -> None:
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

    def remove(self) -> None:
        """Remove the files of this work, after its end."""
        shutil.rmtree(self._folder, ignore_errors=True)


NUMBERS = ("seed", "first", "last", "most", "flips")


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
    shards: dict[int, Shard] = {}
    todo = dict(enumerate(jobs))
    while todo:
        _do(todo, executor, files, shards, advance)
        again = too_many_flips(jobs, [shards[place] for place in range(len(jobs))])
        todo = {} if again is None else dict([again])
        jobs = [todo.get(place, job) for place, job in enumerate(jobs)]
    return joined([shards[place] for place in range(len(jobs))])


def _do(
    todo: dict[int, ShardJob],
    executor: Executor,
    files: ShardFiles,
    shards: dict[int, Shard],
    advance: Callable[[int], None],
) -> None:
    """Do jobs, some more at a time than there are slots: what is not begun is not in memory."""
    running: dict[int, Future[Shard]] = {}
    for place, job in todo.items():
        if (found := files.read(job)) is not None:
            shards[place] = found
            advance(job.last - job.first)
            continue
        running[place] = executor.submit(job)
        while len(running) > (0 if executor.here else 2 * executor.slots):
            _take(todo, running, files, shards, advance)
    while running:
        _take(todo, running, files, shards, advance)


def _take(
    todo: dict[int, ShardJob],
    running: dict[int, Future[Shard]],
    files: ShardFiles,
    shards: dict[int, Shard],
    advance: Callable[[int], None],
) -> None:
    """Keep what is finished next."""
    wait(running.values(), return_when=FIRST_COMPLETED)
    for place in [place for place, future in running.items() if future.done()]:
        job, shard = todo[place], running.pop(place).result()
        files.write(job, shard)
        shards[place] = shard
        advance(job.last - job.first)
