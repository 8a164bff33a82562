"""A worker of a study: claims trials, runs their cells, records both, may be killed at any time.

Every cell is recorded whole before the next begins, and a trial is told to the search only when all
its cells are. Whatever a kill leaves behind, this worker's successor or any other takes up where it
stood; two never work on the same trial.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ablate import pruning
from ablate.errors import UserError, first_line, hide_secrets
from ablate.files import make_whole
from ablate.home import Home
from ablate.interrupts import shielded
from ablate.lab import Lab, yardsticks
from ablate.leases import Leases
from ablate.record import INTERVAL, summarise
from ablate.recording import open_record, record_files, tags_of
from ablate.search import Entry, Ledger, best, finished, importance, make_tables
from ablate.settings import Settings
from ablate.tracking import NOTHING_PAST, REPEATS, TROUBLES, Tracker
from ablate.trial import BATCH, CellResult, Judge, run_cell

ATTEMPTS = 3
"""At a cell that fails, before its trial is given up."""

DEATHS = 10
"""Of workers at the same cell, before its trial is given up: it may want more memory than there
is. Many, for machines that are lent may be taken back at any time."""

POLL = 0.05, 0.5
"""Seconds between looks at whether other workers have finished: at first, at most."""


class Watcher(Protocol):
    """Whoever wants to know how a study is getting on."""

    def began(self, done: int, total: int, best: float | None) -> None:
        """`best` is the first objective's, of the trials done before."""

    def advanced(self, share: float) -> None:
        """Another `share` of a trial is drawn."""

    def stands(self, done: int, best: float | None) -> None:
        """So many trials are finished, by whomever."""

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None: ...


class Outcome(NamedTuple):
    already: int  # trials that were done before
    ran: int  # by this worker
    failures: list[tuple[int, str]]  # (trial, reason)
    stopped: str | None = None  # what ended it before its last trial, if anything did


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


def run(lab: Lab, home: Home, watcher: Watcher) -> Outcome:
    """Bring the study to its total number of trials, with whoever else works on it."""
    try:
        if not home.storage:
            make_whole(home.search, make_tables)
        worker = Worker(lab, home, watcher)
        try:
            return worker.work()
        finally:
            with shielded():
                worker.leases.close()
    except UserError:
        if not home.storage and not home.search.exists():  # SQLite says something else of it
            raise UserError(f"study {lab.key}: {home.search} is gone") from None
        raise
    except TROUBLES as error:
        raise UserError(
            f"study {lab.key}: cannot be recorded: {hide_secrets(first_line(error))};"
            " the same command continues"
        ) from None


def close_left(lab: Lab, home: Home) -> None:
    """After Ctrl-C: if nobody works on the study any more, nothing of it is left RUNNING. A worker
    that was stopped as it began could not see to that."""
    leases = Leases(home.search_url, lab.key)
    try:
        with leases.alone():
            found = Tracker(home).find_study(lab.study.name, lab.key)
            if found is not None and not found.is_whole() and not leases.others("worker/"):
                found.close_all("interrupted", "Ctrl-C")
    finally:
        leases.close()


class Worker:
    """One process at work on a study."""

    def __init__(self, lab: Lab, home: Home, watcher: Watcher) -> None:
        self.lab, self.study, self.watcher = lab, lab.study, watcher
        self.ledger = Ledger(home.search_url, lab.key, lab.study)
        self.leases = Leases(home.search_url, lab.key)
        self.tracker = Tracker(home)
        self._presence = f"worker/{self.leases.owner.split()[-1]}"
        self.leases.take(self._presence)
        self._tags = tags_of(lab)
        self._open: list[str] = []  # runs to be closed if this worker is stopped
        self._features: dict[tuple[int, int], Tensor] = {}
        self._began = time.monotonic()

    def work(self) -> Outcome:
        entries = self.ledger.entries()
        already = finished(entries)
        self.watcher.began(already, self.study.trials, best(self.study, entries))
        if self._is_done(entries) and self._was_closed():
            failed = [(e.number, "failed before") for e in entries if e.state == "failed"]
            return Outcome(already, 0, failed)
        with shielded(), self.leases.alone():
            self.record = open_record(self.tracker, self.lab, self._tags)
        with self._closing():
            with self.leases.alone():
                if not self.record.has_yardsticks():
                    self.record.log_yardsticks(yardsticks(self.lab))
            reasons = {claim.entry.number: self._trial(claim) for claim in self._claims()}
            with shielded(), self.leases.alone():
                self._finish()
        failures = [(number, reason) for number, reason in reasons.items() if reason]
        return Outcome(already, len(reasons), failures, self._cap(self.ledger.entries()))

    def _is_done(self, entries: list[Entry]) -> bool:
        finished = not any(entry.running for entry in entries)
        return finished and len(entries) >= self.study.trials

    def _was_closed(self) -> bool:
        found = self.tracker.find_study(self.study.name, self.lab.key)
        return found is not None and found.is_whole()

    # --- which trial next --------------------------------------------------------------------

    def _claims(self) -> Iterator[Claim]:
        """Trials to run: what the dead left, then new ones. While others are at work one waits, for
        they may die too."""
        pause = POLL[0]
        while True:
            with shielded(), self.leases.alone():
                entries = self.ledger.entries()
                claim = self._claim(entries)
            self.watcher.stands(finished(entries), best(self.study, entries))
            if claim is not None:
                yield claim
                self.leases.finish(_item(claim.entry))
                pause = POLL[0]
            elif self._out_of_time() or not any(entry.running for entry in entries):
                return
            else:
                time.sleep(pause)
                pause = min(2 * pause, POLL[1])

    def _claim(self, entries: list[Entry]) -> Claim | None:
        running = [entry for entry in entries if entry.running]
        theirs = self.leases.others("trial/") if running else set()
        for entry in running:
            if _item(entry) not in theirs and self.leases.take(_item(entry)):
                if self.ledger.is_running(entry.number):
                    return Claim(entry, True, entries)
                self.leases.release(_item(entry))  # finished since the entries were read
        if len(entries) >= self.study.trials or self._cap(entries):
            return None
        entry = self.ledger.propose_next(entries)
        if not self.leases.take(_item(entry)):  # another came in between: the server was away
            return self._claim(self.ledger.entries())
        return Claim(entry, False, entries)

    def _cap(self, entries: list[Entry]) -> str | None:
        """Which limit is reached, or None."""
        if len(entries) >= self.study.trials:
            return None
        if self._out_of_time():
            return f"{self.study.minutes:g} minutes are over"
        if self.study.evaluations is None:
            return None
        spent = sum(self._spent(entry) for entry in entries)
        if spent >= self.study.evaluations:
            return f"{spent:,} of {self.study.evaluations:,} network evaluations are spent"
        return None

    def _spent(self, entry: Entry) -> int:
        """Evaluations of the network, for single images."""
        if entry.state != "complete":
            return entry.evaluations
        nfe = self.study.settings(entry.params).nfe
        return nfe * self.study.samples * len(self.study.seeds)

    def _out_of_time(self) -> bool:
        """This worker, whatever the others have left."""
        minutes = (time.monotonic() - self._began) / 60
        return self.study.minutes is not None and minutes >= self.study.minutes

    # --- one trial ---------------------------------------------------------------------------

    def _trial(self, claim: Claim) -> str | None:
        """One configuration, unless another worker takes it over; the reason of a failure."""
        before = list(self._open)
        try:
            return self._configuration(claim)
        except TakenOverError:  # what is open of it is the other's now
            self._open = before
            return None

    def _configuration(self, claim: Claim) -> str | None:
        """All seeds, up to the first that diverges or the point where it is given up."""
        entry, again, entries = claim
        settings, number = self.study.settings(entry.params), entry.number
        repeats, seeds = self._replicate(entry, entries)
        tags = self._tags | ({} if repeats is None else {REPEATS: str(repeats)})
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
        if not self.leases.holds(_item(entry)):
            raise TakenOverError
        self._conclude(entry, run_id, last, state, reason, cells)
        return reason if state == "failed" else None

    def _begin(
        self, claim: Claim, settings: Settings, seed: int, tags: Mapping[str, str]
    ) -> tuple[str, str | None]:
        """(the trial's run, its first cell's if that is opened with it)."""
        number, knobs = claim.entry.number, settings.knobs()
        if claim.again:
            self._open.append(trial := self.record.reopen_trial(number, knobs, tags))
            return trial, None
        with self.record.at_once():
            trial = self.record.open_trial(number, knobs, tags)
            cell = self.record.open_cell(trial, number, seed, tags)
        self._open += [trial, cell]
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
            self._open.remove(run_id)
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
        def judge(features: Tensor) -> str | None:
            drawn[seed] = features
            theirs = {each: self._features_of(rival.number, each) for each in drawn}
            return pruning.verdict(self.study, rival, drawn, theirs, self.lab.reference)

        return judge

    def _features_of(self, number: int, seed: int) -> Tensor:
        if (number, seed) not in self._features:
            file = self.record.fetch(self.record.cell_run(number, seed), "features.npz")
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
                    self._open.append(run_id)
            else:
                run_id, opened = opened, None
            told = _Told(self.watcher, share / calls)
            try:
                result = run_cell(self.lab, settings, seed, told, judge)
            except Exception as error:  # one configuration's trouble is not the study's
                told.take_back()
                reason = f"{type(error).__name__}: {error}"
                with shielded():
                    self.record.close(run_id, "failed", reason)
                    self._open.remove(run_id)
                continue
            told.fill(share)
            with shielded():
                if not self.leases.holds(_item(entry)):
                    self.record.close(run_id, "interrupted", "another worker took over")
                    raise TakenOverError
                shows = trial_run if seed == self.study.seeds[0] else None
                record_files(self.record, run_id, shows, result, self.lab)
            return Drawn(run_id, seed, result)
        raise CellError(reason)

    def _close_cell(self, drawn: Drawn | None, settings: Settings) -> None:
        if drawn is None:
            return
        result, params = drawn.result, {**settings.knobs(), "seed": drawn.seed}
        with shielded():
            self.record.close(drawn.run_id, result.state, result.reason, result.metrics, params)
            self._open.remove(drawn.run_id)

    # --- the end -----------------------------------------------------------------------------

    def _finish(self) -> None:
        """What a study says of itself when its last trial is done, whoever ran it."""
        entries = self.ledger.entries()
        left_alone = self._cap(entries) and not self.leases.others("worker/")
        if not (self._is_done(entries) or left_alone):
            return
        found = importance(self.study, entries)
        self.record.log_document("importance.json", found)
        shares = {
            f"importance/{metric}/{method}/{knob}": share
            for metric, methods in found.items()
            for method, knobs in methods.items()
            for knob, share in knobs.items()
        }
        self.record.log(self.record.run_id, shares)
        self.record.close_all("complete", self._cap(entries))

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Whatever ends the block, nothing of this worker is left RUNNING, and the last worker to
        go says so of the study."""
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            state, reason = ("interrupted", "Ctrl-C") if stopped else ("failed", first_line(error))
            self.leases.hurry()
            with shielded(), suppress(*TROUBLES):
                for run_id in self._open:
                    self.record.close(run_id, "interrupted", "the study was stopped")
                with self.leases.alone():
                    self.leases.release(self._presence)
                    if not self.leases.others("worker/"):
                        self.record.close_all(state, reason)
            raise


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
    return [other.number for other in entries[: entry.number] if other.params == entry.params]


def _firsts(entries: list[Entry]) -> list[Entry]:
    """The first trial of every configuration: it has the study's own seeds."""
    return list({str(entry.params): entry for entry in reversed(entries)}.values())


def _item(entry: Entry) -> str:
    return f"trial/{entry.number}"
