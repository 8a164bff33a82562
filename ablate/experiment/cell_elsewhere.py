"""A cell that other processes draw: rung by rung, each rung wherever there is room.

The one that asks keeps the judge, so that a rung is nothing but a boundary between two jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from ablate.experiment.also import also_measured
from ablate.experiment.cell import (
    KEPT_IMAGES,
    Begun,
    Cell,
    CellResult,
    Judge,
    Stand,
    result_of,
)
from ablate.experiment.executors.executor import Job
from ablate.experiment.prepare import Setup
from ablate.experiment.shard_files import ShardFiles
from ablate.experiment.shards import (
    SHARD,
    Gathered,
    Shard,
    ShardJob,
    compact,
    result_of_shards,
    shard_jobs,
)
from ablate.generate.draw import drawing_of
from ablate.generate.settings import Settings
from ablate.models.bundle import Bundle
from ablate.results import ERROR

T = TypeVar("T")


class Kept(NamedTuple):
    """A job whose result is taken as soon as it is there, when others may still be in flight. In
    the place of the result, the work that asked gets None."""

    job: Job
    take: Callable[[Any], None]


Steps = Generator[Sequence[Job | Kept] | None, Any, T]
"""Work that needs jobs done: it yields jobs and is sent their results, or thrown an exception. It
yields None to go on when all work that began earlier has ended."""


class Asked(NamedTuple):
    """Which cell is to be drawn, and how it is measured at its end."""

    settings: Settings
    seed: int
    most: int  # samples at the end
    bundle: Bundle | None = None  # with the network that the study trained for it
    also: bool = False  # whether further extractors measure it


class Rung(NamedTuple):
    """A cell at a rung, as a job returns it."""

    begun: Begun
    features: Tensor  # float16, [N, f]
    measured: dict[str, float]


@dataclass(frozen=True)
class CellJob:
    """Draws a cell up to a rung or to its end."""

    asked: Asked
    samples: int
    begun: Begun | None = None

    def __call__(self, setup: Setup) -> Rung | CellResult:
        settings, seed, most, bundle, also = self.asked
        if bundle is not None:
            setup = setup._replace(bundle=bundle)
        cell = Cell(setup, settings, seed, most, begun=self.begun)
        stand = cell.up_to(self.samples)
        if self.samples < most and not stand.drawing.reason:
            begun = cell.begun()
            return Rung(begun._replace(drawn=compact(begun.drawn)), stand.features, stand.measured)
        result = result_of(stand, {})
        return light(with_also(setup, result) if also else result, setup)


def with_also(setup: Setup, result: CellResult) -> CellResult:
    """The result of a complete cell, measured by further extractors, too."""
    if result.state != "complete":
        return result
    found = also_measured(setup, result.drawing.pixels)
    values = {name: each.value for name, each in found.items()}
    errors = {name + ERROR: each.sampling_error for name, each in found.items()}
    return result._replace(metrics=result.metrics | values | errors)


def light(result: CellResult, setup: Setup) -> CellResult:
    """The result with what the record keeps and no more, to be sent to another process."""
    drawing, panel = result.drawing, None
    if result.neighbours:
        panel = setup.neighbourhood.panel(drawing.pixels, result.neighbours)
    kept = drawing._replace(
        pixels=drawing.pixels[:KEPT_IMAGES].clone(),  # a view would be sent with all of them
        labels=None if drawing.labels is None else drawing.labels[:KEPT_IMAGES].clone(),
    )
    return result._replace(drawing=kept, neighbours={}, panel=panel)


def has_shards(asked: Asked, judge: Judge | None) -> bool:
    """Whether a cell is drawn in shards: it has many samples, and nobody looks at the first. A
    network that was trained for it would go with each."""
    return judge is None and asked.most > SHARD and asked.bundle is None


def cell_elsewhere(
    setup: Setup,
    asked: Asked,
    judge: Judge | None,
    files: ShardFiles,
    told: Callable[[int], None] = lambda samples: None,
) -> Steps[CellResult]:
    """The result of a cell, as `run_cell` has it, drawn by jobs. told: called with the number of
    samples of each finished shard, if it has any."""
    if has_shards(asked, judge):
        return (yield from _in_shards(setup, asked, files, told))
    rungs: dict[int, dict[str, float]] = {}
    begun: Begun | None = None
    for samples in setup.study.rungs if judge else ():
        stands: Rung | CellResult
        (stands,) = yield [CellJob(asked, samples, begun)]
        if isinstance(stands, CellResult):  # it diverged
            return stands._replace(rungs=rungs)
        assert judge is not None
        rungs[samples], begun = stands.measured, stands.begun
        if (reason := judge(stands.features)) is not None:
            drawing = drawing_of(begun.drawn, samples)
            at_rung = Stand(drawing, stands.features, stands.measured, {}, begun.seconds)
            return result_of(at_rung, rungs, reason)
    result: CellResult
    (result,) = yield [CellJob(asked, asked.most, begun)]
    return result._replace(rungs=rungs)


def _in_shards(
    setup: Setup, asked: Asked, files: ShardFiles, told: Callable[[int], None]
) -> Steps[CellResult]:
    """A cell of many samples: its shards are jobs of their own, and it is measured here. Those that
    are finished come from files."""
    jobs = shard_jobs(asked.settings, asked.seed, asked.most, setup.score_model.shape)
    gathered, todo = Gathered(jobs), dict(enumerate(jobs))

    def add(place: int, shard: Shard) -> None:
        gathered.add(place, shard)
        told(len(shard.features))

    def take(place: int, job: ShardJob, shard: Shard) -> None:
        files.write(job, shard)
        add(place, shard)

    while todo:
        missing = []
        for place, job in todo.items():
            if (found := files.read(job)) is not None:
                add(place, found)
            else:
                missing.append(Kept(job, partial(take, place, job)))
        if missing:
            yield missing
        again = gathered.again()
        todo = {} if again is None else dict([again])
    result = result_of_shards(setup, gathered.joined())
    return with_also(setup, result) if asked.also else result
