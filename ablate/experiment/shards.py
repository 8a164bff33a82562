"""Many samples of one configuration and seed, drawn in shards, each wherever there is room.

Sample i depends on (seed, i) alone, and a shard is whole batches of drawing and of extraction, so
that joined shards have the bits of one process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.experiment.cell import CellResult, measured, result_of
from ablate.experiment.prepare import Setup
from ablate.generate.draw import Sampling, Stretch, drawing_of, most_flips
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


class Gathered:
    """The samples of shards as they come, each in its place: they are in memory once."""

    def __init__(self, jobs: Sequence[ShardJob]) -> None:
        self._jobs, self._samples = list(jobs), jobs[-1].last - jobs[0].first
        self._rest: dict[int, Shard] = {}  # by place, without pixels and features
        self._large: tuple[Tensor, Tensor] | None = None  # pixels and features of all

    def add(self, place: int, shard: Shard) -> None:
        """Take the samples of a shard, which replace those that it had before."""
        parts = shard.drawn.pixels, shard.features
        if self._large is None:  # this memory is used only as it fills
            pixels, features = (part.new_empty(self._samples, *part.shape[1:]) for part in parts)
            self._large = pixels, features
        first = self._jobs[place].first - self._jobs[0].first
        for whole, part in zip(self._large, parts, strict=True):
            whole[first : first + len(part)] = part
        drawn = shard.drawn._replace(pixels=parts[0][:0].clone())
        self._rest[place] = shard._replace(drawn=drawn, features=parts[1][:0].clone())

    def again(self) -> tuple[int, ShardJob] | None:
        """After all have come: the place of a shard that must be drawn again, and its new job."""
        found = too_many_flips(self._jobs, [self._rest[each] for each in range(len(self._jobs))])
        if found is not None:
            self._jobs[found[0]] = found[1]
        return found

    def joined(self) -> Shard:
        """All samples, up to the shard that diverged, if any."""
        assert self._large is not None
        shards = [self._rest[place] for place in range(len(self._jobs))]
        diverged = (place for place, shard in enumerate(shards) if shard.drawn.reason is not None)
        parts = shards[: next(diverged, len(shards) - 1) + 1]
        stretches = [shard.drawn for shard in parts]
        count = sum(len(each.clamped) for each in stretches)
        pixels, features = (whole[:count] for whole in self._large)
        labels = [each.labels for each in stretches if each.labels is not None]
        drawn = stretches[0]._replace(
            pixels=pixels,
            clamped=torch.cat([each.clamped for each in stretches]),
            flipped=torch.cat([each.flipped for each in stretches]),
            labels=torch.cat(labels) if labels else None,
            reason=stretches[-1].reason,
        )
        return Shard(drawn, features, sum(shard.seconds for shard in parts))


def result_of_shards(setup: Setup, whole: Shard) -> CellResult:
    """The result of a cell whose shards are joined, measured as one that was drawn at once."""
    drawing = drawing_of(whole.drawn, len(whole.drawn.pixels))
    return result_of(measured(setup, drawing, whole.features, whole.seconds), {})
