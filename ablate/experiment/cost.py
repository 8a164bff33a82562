"""The cost of a study before it is run: cells, network evaluations, time on this device, disk."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from pydantic import ValidationError

from ablate.core.errors import UserError
from ablate.core.validation import one_line
from ablate.experiment.cell import KEPT_IMAGES
from ablate.experiment.confirmation import planned
from ablate.experiment.early_stopping import MOST_PRUNED
from ablate.experiment.prepare import Setup
from ablate.experiment.training_cost import TrainingPlan, plan_trainings
from ablate.generate.draw import BATCH, STRIP_FRAMES, STRIP_ROWS
from ablate.metrics.extractors.extractor import extract
from ablate.results import Value
from ablate.search import learns, propose
from ablate.study.definition import Study
from ablate.study.methods import METHODS

PROBE = 1.0
"""Seconds of timing the network."""

RECORDING = 0.35
"""Seconds to record a cell on a local disk, as measured, with its part of the trial's record."""

RUN_BYTES = 40_000
"""Bytes of a run in MLflow's database."""

GUESSES = 256
"""Random configurations from which the cost of a search method's proposals is estimated."""


class Speed(NamedTuple):
    """Seconds that the parts of a cell take on this device."""

    batch: float  # the network, for a batch
    image: float  # the features of an image
    cell: float  # the metrics of a cell, with the features of mirrored samples


class Plan(NamedTuple):
    """The cost of a study."""

    trials: int
    confirmations: int
    cells: int
    evaluations: int  # of the network, for single images
    seconds: float
    bytes: int
    exact: bool  # whether the configurations are known before the study runs
    least: float  # seconds, if as many trials as may be are pruned at the first rung
    networks: int = 0  # to train
    training: float = 0.0  # seconds of `seconds` that these take


def probe(setup: Setup, seconds: float = PROBE) -> Speed:
    """Time the parts of a cell with the study's own network, extractor and reference."""
    shape = setup.bundle.card.shape
    model, classes = setup.bundle.model.to(setup.device), setup.bundle.card.recipe.net.classes
    y = torch.zeros(BATCH, *shape, device=setup.device)
    s = torch.full((BATCH,), 0.5, device=setup.device)
    labels = torch.zeros(BATCH, dtype=torch.long, device=setup.device) if classes else None

    def call() -> None:
        with torch.no_grad():
            model(y, s, labels)
        if y.is_cuda:
            torch.cuda.synchronize()

    pixels = torch.zeros(BATCH, *shape, dtype=torch.uint8)
    features = setup.reference.features[: setup.study.samples]
    call()
    _measure(setup, features[:16])  # what all cells share is computed once and not timed
    image = _time(lambda: extract(setup.extractor, pixels), seconds / 4) / BATCH
    again = setup.neighbourhood.mirrored and setup.searches_own_features
    mirrored = setup.study.samples * image if again else 0.0
    return Speed(
        batch=_time(call, seconds),
        image=image,
        cell=_time(lambda: _measure(setup, features), seconds / 4) + mirrored,
    )


def _measure(setup: Setup, features: torch.Tensor) -> None:
    setup.measure(features)
    pixels = torch.zeros(len(features), *setup.bundle.card.shape, dtype=torch.uint8)
    setup.find_copies(pixels, features, features)


def _time(work: Callable[[], object], seconds: float) -> float:
    """Seconds of one call, as the mean over at least `seconds` seconds."""
    began, times = time.perf_counter(), 0
    while times == 0 or time.perf_counter() - began < seconds:
        work()
        times += 1
    return (time.perf_counter() - began) / times


def make_plan(setup: Setup, speed: Speed) -> Plan:
    """The cost of the whole study, including trials that are finished."""
    study, work = setup.study, count(setup.study)
    search, confirming = work.search, work.confirming
    baselines = 2 * len(study.seeds) * (study.samples * speed.image + speed.cell)
    reference = setup.real.pending * speed.image
    trainings = _trainings(setup)
    seconds, more = search.seconds(speed), confirming.seconds(speed) + baselines + reference
    more += trainings.seconds
    return Plan(
        trials=study.trials,
        confirmations=work.confirmations,
        cells=work.cells,
        evaluations=work.evaluations,
        seconds=seconds + more,
        bytes=disk_bytes(setup, work) + trainings.bytes,
        exact=work.exact,
        least=(_least(study, seconds) if study.rungs else seconds) + more,
        networks=trainings.networks,
        training=trainings.seconds,
    )


def _trainings(setup: Setup) -> TrainingPlan:
    """The cost of the study's trainings; what a search proposes is guessed at random."""
    study = setup.study
    guess = study.model_copy(update={"method": "random"}) if learns(study) else study
    foreseen = (study.settings(params) for params in _foreseen(guess))
    return plan_trainings(
        setup, itertools.islice(foreseen, min(study.trials, GUESSES)), study.trials
    )


class Draws(NamedTuple):
    """Cells to draw."""

    cells: int
    samples: int  # of each
    nfe: float  # evaluations of one sample, added up over the cells

    def seconds(self, speed: Speed) -> float:
        batches = -(-self.samples // BATCH)
        each = self.samples * speed.image + speed.cell + RECORDING
        return self.nfe * batches * speed.batch + self.cells * each


class Work(NamedTuple):
    """What a study does, as far as its file says it: no bundle is needed to count it."""

    trials: int
    confirmations: int
    search: Draws
    confirming: Draws
    exact: bool  # whether the configurations are known before the study runs

    @property
    def cells(self) -> int:
        return self.search.cells + self.confirming.cells

    @property
    def evaluations(self) -> int:
        """Of the network, for single images."""
        return round(sum(each.nfe * each.samples for each in (self.search, self.confirming)))


def count(study: Study) -> Work:
    """Count the cells and evaluations of the whole study."""
    total, known = _total_nfe(study, itertools.islice(_foreseen(study), study.trials))
    if study.trials > known:
        guess = study.model_copy(update={"method": "random", "first": ()})
        sample, guesses = _total_nfe(study, itertools.islice(_foreseen(guess), GUESSES))
        total += (study.trials - known) * sample / guesses
    again, seeds = planned(study), len(study.confirm.seeds)
    search = Draws(study.trials * len(study.seeds), study.samples, total * len(study.seeds))
    nfe = total / study.trials * again * seeds  # unknown yet: the mean
    confirming = Draws(again * seeds, study.confirm.samples or study.samples, nfe)
    return Work(study.trials, again, search, confirming, exact=not learns(study))


def _foreseen(study: Study) -> Iterable[Mapping[str, Value]]:
    """The configurations that the study will try, as far as they do not depend on results."""
    if METHODS[study.method].finite:
        return itertools.chain(study.first, study.grid())
    if learns(study):
        return study.first
    return (propose(study, n, []).params for n in itertools.count())


def _total_nfe(study: Study, configurations: Iterable[Mapping[str, Value]]) -> tuple[float, int]:
    """(sum of the evaluations of one sample of each configuration, number of configurations)."""
    total, count = 0.0, 0
    for params in configurations:
        try:
            total += study.settings(params).nfe
        except ValidationError as error:  # there were too many corners to check them all
            raise UserError(f"{study.name}: {one_line(error)} [{dict(params)}]") from None
        count += 1
    return total, count


def _least(study: Study, seconds: float) -> float:
    """Seconds of the search if as many trials as may be are pruned at the first rung."""
    batches = -(-study.rungs[0] // BATCH)
    whole = len(study.seeds) * -(-study.samples // BATCH)
    return seconds * (1 - MOST_PRUNED + MOST_PRUNED * batches / whole)


def disk_bytes(setup: Setup, work: Work) -> int:
    """Bytes of the record of the whole study, without networks that it trains."""
    runs = work.cells + work.trials + work.confirmations
    return work.cells * _cell_bytes(setup) + runs * RUN_BYTES


def _cell_bytes(setup: Setup) -> int:
    """Bytes of a cell's artifacts: images hardly compress; features are in half precision."""
    image = torch.Size(setup.bundle.card.shape).numel()
    pictures = 2 * KEPT_IMAGES + STRIP_ROWS * STRIP_FRAMES
    return pictures * image + setup.study.samples * setup.extractor.net.width * 2
