"""One claimed trial: its cells, their record, its last word.

Every cell is recorded whole before the next begins, and a trial is told to the search only when all
its cells are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from ablate.core.signals import shielded
from ablate.core.validation import one_line
from ablate.experiment import early_stopping as pruning
from ablate.experiment.artifacts import record_files
from ablate.experiment.cell import CellResult, Judge, run_cell
from ablate.experiment.leases import Leases
from ablate.experiment.prepare import Setup
from ablate.generate.draw import BATCH
from ablate.generate.settings import Settings
from ablate.results import FEATURES, INTERVAL, summarise
from ablate.search import Entry, Ledger
from ablate.tracking import NOTHING_PAST, REPEATS, StudyRun

ATTEMPTS = 3
"""At a cell that fails, before its trial is given up."""

DEATHS = 10
"""Of workers at the same cell, before its trial is given up: it may want more memory than there
is. Many, for machines that are lent may be taken back at any time."""


class Watcher(Protocol):
    """Whoever wants to know how a study is getting on."""

    def began(self, done: int, total: int, best: float | None) -> None:
        """`best` is the first objective's, of the trials done before."""

    def advanced(self, share: float) -> None:
        """Another `share` of a trial is drawn."""

    def stands(self, done: int, best: float | None) -> None:
        """So many trials are finished, by whomever."""

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None: ...


class Claim(NamedTuple):
    """A trial that is this worker's to run."""

    entry: Entry
    again: bool  # another worker had begun it
    entries: list[Entry]  # how the study stood at that moment


class Drawn(NamedTuple):
    """A cell whose files are in the record, and whose run is still to be closed."""

    run_id: str
    seed: int
    result: CellResult


class CellError(Exception):
    """Time and again; says why."""


class TakenOverError(Exception):
    """Another worker has the trial: this one was out of touch for too long."""


class Runner:
    """Runs the trials that one worker claims."""

    def __init__(
        self,
        setup: Setup,
        ledger: Ledger,
        leases: Leases,
        record: StudyRun,
        tags: Mapping[str, str],
        watcher: Watcher,
    ) -> None:
        self.setup, self.study, self.watcher = setup, setup.study, watcher
        self.ledger, self.leases, self.record = ledger, leases, record
        self.open: list[str] = []  # runs to be closed if this worker is stopped
        self._tags = tags
        self._features: dict[tuple[int, int], Tensor] = {}

    def run(self, claim: Claim) -> str | None:
        """One configuration, unless another worker takes it over; the reason of a failure."""
        before = list(self.open)
        try:
            return self._configuration(claim)
        except TakenOverError:  # what is open of it is the other's now
            self.open = before
            return None

    def _configuration(self, claim: Claim) -> str | None:
        """All seeds, up to the first that diverges or the point where it is given up."""
        entry, again, entries = claim
        number = entry.number
        try:
            settings = self.study.settings(entry.params)
        except ValidationError as error:
            return self._refuse(claim, one_line(error))
        repeats, seeds = self._replicate(entry, entries)
        tags = {**self._tags, **({} if repeats is None else {REPEATS: str(repeats)})}
        with shielded():
            done, deaths = self.record.past_cells(number) if again else NOTHING_PAST
            run_id, opened = self._begin(claim, settings, seeds[0], tags)
        rival = None if repeats is not None else self._rival(settings, entries)
        cells: list[dict[str, float]] = []
        drawn: dict[int, Tensor] = {}
        last: Drawn | None = None
        state, reason = "complete", None
        share = 1 / len(seeds)
        try:
            for seed in seeds:
                self._close_cell(last, settings)
                last = None
                judge = self._judge(rival, drawn, seed) if rival else None
                if seed in done:
                    cell = done[seed]
                    state, metrics, reason = cell.state, cell.metrics, cell.reason
                    if rival:
                        drawn[seed] = self._features_of(number, seed)
                    self.watcher.advanced(share)
                elif deaths[seed] >= DEATHS:
                    raise CellError(f"seed {seed}: its process was killed {deaths[seed]} times")
                else:
                    looks = judge if seed == seeds[0] else None
                    last = self._cell(run_id, opened, entry, settings, seed, share, looks, tags)
                    opened, result = None, last.result
                    state, metrics, reason = result.state, result.metrics, result.reason
                    drawn[seed] = result.features
                cells.append(metrics)
                if state == "complete" and judge and seed != seeds[-1]:
                    reason = judge(drawn.pop(seed))
                    state = "pruned" if reason else state
                if state != "complete":
                    break
        except CellError as error:
            state, reason = "failed", str(error)
        self.watcher.advanced(1 - share * len(cells))  # what is not to be drawn any more
        if not self.leases.holds(item(entry)):
            raise TakenOverError
        self._conclude(entry, run_id, last, state, reason, cells)
        return reason if state == "failed" else None

    def _refuse(self, claim: Claim, reason: str) -> str:
        """A configuration that is none, which the check of the study's corners did not come upon:
        there are too many of them."""
        number, params = claim.entry.number, claim.entry.params
        with shielded():
            open_trial = self.record.reopen_trial if claim.again else self.record.open_trial
            run_id = open_trial(number, params, self._tags)
            self.record.close(run_id, "failed", reason, params=params)
            with self.leases.writing():
                self.ledger.fail(number)
        self.watcher.advanced(1.0)
        self.watcher.finished(number, "failed", {})
        return reason

    def _begin(
        self, claim: Claim, settings: Settings, seed: int, tags: Mapping[str, str]
    ) -> tuple[str, str | None]:
        """(the trial's run, its first cell's if that is opened with it)."""
        number, knobs = claim.entry.number, settings.knobs()
        if claim.again:
            self.open.append(trial := self.record.reopen_trial(number, knobs, tags))
            return trial, None
        with self.record.at_once():
            trial = self.record.open_trial(number, knobs, tags)
            cell = self.record.open_cell(trial, number, seed, tags)
        self.open += [trial, cell]
        return trial, cell

    def _conclude(
        self,
        entry: Entry,
        run_id: str,
        last: Drawn | None,
        state: str,
        reason: str | None,
        cells: list[dict[str, float]],
    ) -> None:
        """`last`: the cell that is still to be closed, if there is one."""
        means, widths = summarise(cells)
        metrics = means | {name + INTERVAL: width for name, width in widths.items()}
        settings = self.study.settings(entry.params)
        with shielded():
            with self.record.at_once():
                self._close_cell(last, settings)
                self.record.close(run_id, state, reason, metrics, settings.knobs())
            self.open.remove(run_id)
            spent = sum(int(cell["nfe"] * cell["samples"]) for cell in cells)
            violations = {
                name: means[name] - bound
                for name, bound in self.study.constraints.items()
                if name in means
            }
            with self.leases.writing():
                if state == "complete":
                    values = [means[o.metric] for o in self.study.objectives]
                    self.ledger.complete(entry.number, values, violations)
                elif state == "failed":
                    self.ledger.fail(entry.number, spent)
                else:
                    self.ledger.prune(entry.number, violations, *self._last_look(cells), spent)
        self.watcher.finished(entry.number, state, means)

    def _last_look(self, cells: list[dict[str, float]]) -> tuple[float | None, int]:
        """(the first objective, samples) of a trial that was given up, as far as it was drawn."""
        metric = self.study.objectives[0].metric
        samples = int(sum(cell["samples"] for cell in cells))
        means, _ = summarise(cells)
        names = [metric, *(f"{metric}_n{rung}" for rung in reversed(self.study.rungs))]
        return next((means[name] for name in names if name in means), None), samples

    def _replicate(self, entry: Entry, entries: list[Entry]) -> tuple[int | None, tuple[int, ...]]:
        """(the trial that this one repeats, its seeds): a configuration that is proposed again gets
        further seeds."""
        alike = _alike(entry, entries)
        stride = len(alike) * (max(self.study.seeds) + 1)
        seeds = tuple((seed + stride) % 2**32 for seed in self.study.seeds)
        return (alike[0] if alike else None), seeds

    def _rival(self, settings: Settings, entries: list[Entry]) -> pruning.Rival | None:
        if not self.study.rungs:
            return None
        rivals = [
            pruning.Rival(entry.number, self.study.settings(entry.params), entry.values)
            for entry in _firsts(entries)
            if entry.state == "complete" and entry.feasible
        ]
        return pruning.choose_rival(self.study, settings, rivals)

    def _judge(self, rival: pruning.Rival, drawn: dict[int, Tensor], seed: int) -> Judge:
        self._features_of(rival.number, seed)  # if they cannot be had, it is not the cell's fault

        def judge(features: Tensor) -> str | None:
            drawn[seed] = features
            theirs = {each: self._features_of(rival.number, each) for each in drawn}
            return pruning.verdict(self.study, rival, drawn, theirs, self.setup.reference)

        return judge

    def _features_of(self, number: int, seed: int) -> Tensor:
        if (number, seed) not in self._features:
            file = self.record.fetch(self.record.cell_run(number, seed), FEATURES)
            self._features[number, seed] = torch.from_numpy(np.load(file)["features"])
        return self._features[number, seed]

    # --- one cell ----------------------------------------------------------------------------

    def _cell(
        self,
        trial_run: str,
        opened: str | None,
        entry: Entry,
        settings: Settings,
        seed: int,
        share: float,
        judge: Judge | None,
        tags: Mapping[str, str],
    ) -> Drawn:
        """Tried again if it fails; every attempt is recorded. `opened`: the run of the first."""
        calls = settings.nfe * -(-self.study.samples // BATCH)
        for _ in range(ATTEMPTS):
            if opened is None:
                with shielded():
                    run_id = self.record.open_cell(trial_run, entry.number, seed, tags)
                    self.open.append(run_id)
            else:
                run_id, opened = opened, None
            told = _Told(self.watcher, share / calls)
            try:
                result = run_cell(self.setup, settings, seed, told, judge)
            except Exception as error:  # one configuration's trouble is not the study's
                told.take_back()
                reason = f"{type(error).__name__}: {error}"
                with shielded():
                    self.record.close(run_id, "failed", reason)
                    self.open.remove(run_id)
                continue
            told.fill(share)
            with shielded():
                if not self.leases.holds(item(entry)):
                    self.record.close(run_id, "interrupted", "another worker took over")
                    raise TakenOverError
                shows = trial_run if seed == self.study.seeds[0] else None
                record_files(self.record, run_id, shows, result, self.setup)
            return Drawn(run_id, seed, result)
        raise CellError(reason)

    def _close_cell(self, drawn: Drawn | None, settings: Settings) -> None:
        if drawn is None:
            return
        result, params = drawn.result, {**settings.knobs(), "seed": drawn.seed}
        with shielded():
            self.record.close(drawn.run_id, result.state, result.reason, result.metrics, params)
            self.open.remove(drawn.run_id)


class _Told:
    """Tells a watcher of calls of the network, and can take them back."""

    def __init__(self, watcher: Watcher, share: float) -> None:
        self._watcher, self._share, self._sum = watcher, share, 0.0

    def __call__(self) -> None:
        self._advance(self._share)

    def _advance(self, share: float) -> None:
        self._sum += share
        self._watcher.advanced(share)

    def fill(self, share: float) -> None:
        """What was not drawn counts as done."""
        self._advance(share - self._sum)

    def take_back(self) -> None:
        self._advance(-self._sum)


def _alike(entry: Entry, entries: list[Entry]) -> list[int]:
    """Earlier trials of the same configuration."""
    return [
        other.number
        for other in entries
        if other.number < entry.number and other.params == entry.params
    ]


def _firsts(entries: list[Entry]) -> list[Entry]:
    """The first trial of every configuration: it has the study's own seeds."""
    return list({str(entry.params): entry for entry in reversed(entries)}.values())


def item(entry: Entry) -> str:
    return f"trial/{entry.number}"
