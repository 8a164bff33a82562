"""A worker of a study: claims trials and has them run, may be killed at any time.

Whatever a kill leaves behind, this worker's successor or any other takes up where it stood; two
never work on the same trial.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from pydantic import ValidationError

from ablate.core.errors import PassingError, UserError, first_line, hide_secrets
from ablate.core.files import make_whole
from ablate.core.signals import shielded
from ablate.core.workspace import Workspace
from ablate.experiment.artifacts import open_record, tags_of
from ablate.experiment.baselines import baselines
from ablate.experiment.leases import Leases
from ablate.experiment.prepare import Setup
from ablate.experiment.trial import Claim, Runner, Watcher, item
from ablate.results import IMPORTANCE
from ablate.search import Entry, Ledger, best, finished, importance, make_tables, summary
from ablate.search.database import masked
from ablate.tracking import TROUBLES, StudyRun, Tracker

POLL = 0.05, 0.5
"""Seconds between looks at whether other workers have finished: at first, at most."""

TELL = 0.2
"""Seconds between words to a watcher of how the study stands."""


class Outcome(NamedTuple):
    already: int  # trials that were done before
    ran: int  # by this worker
    failures: list[tuple[int, str]]  # (trial, reason)
    stopped: str | None = None  # what ended it before its last trial, if anything did


def run(setup: Setup, workspace: Workspace, watcher: Watcher) -> Outcome:
    """Bring the study to its total number of trials, with whoever else works on it."""
    with in_one_line(setup, workspace):
        open_search(workspace)
        worker = Worker(setup, workspace, watcher)
        try:
            return worker.work()
        finally:
            with shielded():
                worker.leases.close()


def open_search(workspace: Workspace) -> None:
    """On a server, the first to come makes its tables."""
    if not workspace.storage:
        make_whole(workspace.search, make_tables)


@contextmanager
def in_one_line(setup: Setup, workspace: Workspace) -> Iterator[None]:
    """What a disk, a database or a tracking server has to say."""
    try:
        yield
    except UserError:
        if (
            not workspace.storage and not workspace.search.exists()
        ):  # SQLite says something else of it
            raise UserError(f"study {setup.key}: {workspace.search} is gone") from None
        raise
    except TROUBLES as error:
        kind = UserError if isinstance(error, OSError) else PassingError
        raise kind(
            f"study {setup.key}: cannot be recorded: {hide_secrets(first_line(error))};"
            " the same command continues"
        ) from None


def close_left(setup: Setup, workspace: Workspace, state: str, reason: str) -> None:
    """If nobody works on the study any more, nothing of it is left RUNNING: workers that were
    killed, or stopped as they began, could not see to that."""
    leases = Leases(workspace.search_url, setup.key)
    try:
        with leases.alone():
            found = Tracker(workspace).find_study(setup.study.name, setup.key)
            if found is not None and not found.is_whole() and not leases.others("worker/"):
                found.close_all(state, reason)
    finally:
        leases.close()


class Worker:
    """One process at work on a study."""

    def __init__(self, setup: Setup, workspace: Workspace, watcher: Watcher) -> None:
        self.setup, self.study, self.watcher = setup, setup.study, watcher
        self.ledger = Ledger(workspace.search_url, setup.key, setup.study)
        self.leases = Leases(workspace.search_url, setup.key)
        self.tracker = Tracker(workspace)
        self._presence = f"worker/{self.leases.owner.split()[-1]}"
        self.leases.take(self._presence)
        self._began = time.monotonic()
        self._costs: dict[int, int] = {}  # of trials, in full

    def work(self) -> Outcome:
        entries = self.ledger.entries()
        already = finished(entries)
        self.watcher.began(already, self.study.trials, best(self.study, entries))
        found = self._find_record(entries)
        if found is not None and self._is_done(entries) and found.is_whole():
            found.touch()
            failed = [(e.number, "failed before") for e in entries if e.state == "failed"]
            return Outcome(already, 0, failed)
        tags = tags_of(self.setup)
        with shielded(), self.leases.alone():
            self.record = open_record(self.tracker, self.setup, tags)
        self.runner = Runner(self.setup, self.ledger, self.leases, self.record, tags, self.watcher)
        with self._closing():
            with self.leases.alone():
                if not self.record.has_baselines():
                    self.record.log_baselines(baselines(self.setup))
            reasons = {claim.entry.number: self.runner.run(claim) for claim in self._claims()}
            with shielded(), self.leases.alone():
                self._finish()
        failures = [(number, reason) for number, reason in reasons.items() if reason]
        return Outcome(already, len(reasons), failures, self._cap(self.ledger.entries()))

    def _find_record(self, entries: list[Entry]) -> StudyRun | None:
        """Of this study, if there is one. A trial is told to the search when its record is whole,
        so the last that is finished stands in the record, unless that is another's."""
        found = self.tracker.find_study(self.study.name, self.setup.key)
        last = max((entry.number for entry in entries if not entry.running), default=None)
        if last is None or (found is not None and found.has_trial(last)):
            return found
        raise UserError(
            f"study {self.setup.key}: its search has {finished(entries)} finished trials, but the"
            f" record {masked(self.tracker.uri)} does not know trial {last}: give it the record"
            " that it was begun with, or begin anew without either"
        )

    def _is_done(self, entries: list[Entry]) -> bool:
        finished = not any(entry.running for entry in entries)
        return finished and len(entries) >= self.study.trials

    # --- which trial next --------------------------------------------------------------------

    def _claims(self) -> Iterator[Claim]:
        """Trials to run: what the dead left, then new ones. While others are at work one waits, for
        they may die too."""
        pause, told = POLL[0], -math.inf
        while True:
            with shielded(), self.leases.alone():
                entries = self.ledger.entries()
                self.ledger.drop_doubles()
                claim = self._claim(entries)
            if claim is None or time.monotonic() >= told + TELL:
                self.watcher.stands(finished(entries), best(self.study, entries))
                told = time.monotonic()
            if claim is not None:
                yield claim
                self.leases.finish(item(claim.entry))
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
            if item(entry) not in theirs and self.leases.take(item(entry)):
                if self.ledger.is_running(entry.number):
                    return Claim(entry, True, entries)
                self.leases.release(item(entry))  # finished since the entries were read
        if len(entries) >= self.study.trials or self._cap(entries):
            return None
        proposed = self.ledger.propose_next(entries)
        if proposed is None or not self.leases.take(item(proposed)):
            # another came in between: the server was away
            return self._claim(self.ledger.entries())
        return Claim(proposed, False, entries)

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
        """Evaluations of the network, for single images; of a running trial, what it may take."""
        if not (entry.running or entry.state == "complete"):
            return entry.evaluations
        if entry.number not in self._costs:
            try:
                nfe = self.study.settings(entry.params).nfe
            except ValidationError:  # it is about to be refused
                nfe = 0
            self._costs[entry.number] = nfe * self.study.samples * len(self.study.seeds)
        return self._costs[entry.number]

    def _out_of_time(self) -> bool:
        """This worker, whatever the others have left."""
        minutes = (time.monotonic() - self._began) / 60
        return self.study.minutes is not None and minutes >= self.study.minutes

    # --- the end -----------------------------------------------------------------------------

    def _finish(self) -> None:
        """What a study says of itself when its last trial is done, by the first to see that; or,
        where a limit ended it, by the last to go."""
        self.leases.release(self._presence)  # of two that go at once, one must find itself alone
        entries = self.ledger.entries()
        left_alone = self._cap(entries) and not self.leases.others("worker/")
        if self.record.is_whole() or not (self._is_done(entries) or left_alone):
            return
        found = importance(self.study, entries)
        self.record.log_document(IMPORTANCE, found)
        shares = {
            f"importance/{metric}/{method}/{knob}": share
            for metric, methods in found.items()
            for method, knobs in methods.items()
            for knob, share in knobs.items()
        }
        self.record.log(self.record.run_id, summary(self.study, entries) | shares)
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
            with shielded(), suppress(UserError, *TROUBLES):
                for run_id in self.runner.open:
                    self.record.close(run_id, "interrupted", "the study was stopped")
                with self.leases.alone():
                    self.leases.release(self._presence)
                    if not self.leases.others("worker/"):
                        self.record.close_all(state, reason)
            raise
