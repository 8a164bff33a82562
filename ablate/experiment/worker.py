"""A worker of a study: one process that claims trials and runs them.

Any number of workers share a study, and no two run the same trial. A worker may be killed at any
time; another then resumes its trial from the last finished cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ablate.core.disk import full, is_full
from ablate.core.errors import PassingError, UserError, first_line, hide_secrets
from ablate.core.files import make_whole
from ablate.core.signals import shielded
from ablate.core.workspace import Workspace
from ablate.data.tensor_cache import cache_folder
from ablate.experiment.artifacts import open_record, tags_of
from ablate.experiment.baselines import baselines
from ablate.experiment.claims import Claims
from ablate.experiment.comparisons import comparisons_document
from ablate.experiment.confirmation import confirmation_document, is_done, planned
from ablate.experiment.cost import count, disk_bytes
from ablate.experiment.executors.executor import Executor, InProcess
from ablate.experiment.flights import Flights
from ablate.experiment.ladder import ladder_document
from ablate.experiment.leases import Leases
from ablate.experiment.limits import Limits
from ablate.experiment.origins import Origins
from ablate.experiment.prepare import Setup
from ablate.experiment.shard_files import ShardFiles
from ablate.experiment.summary import best_entry, summary_document
from ablate.experiment.trial import Runner
from ablate.experiment.watcher import Watcher
from ablate.results import COMPARISONS, CONFIRMATION, IMPORTANCE, LADDER, SUMMARY
from ablate.search import Entry, Ledger, best, finished, importance, make_tables, summary
from ablate.search.database import masked
from ablate.tracking.client import TROUBLES, refuses
from ablate.tracking.studies import find_study
from ablate.tracking.study_run import StudyRun
from ablate.tracking.writer import Tracker


class Outcome(NamedTuple):
    """What a worker did."""

    already: int  # trials that were finished before
    ran: int  # trials that this worker ran
    failures: list[tuple[int, str]]  # (trial, reason)
    stopped: str | None = None  # the limit that ended the study before its last trial


def run(
    setup: Setup, workspace: Workspace, watcher: Watcher, executor: Executor | None = None
) -> Outcome:
    """Work on the study, beside any other workers, until it has its total number of trials.

    executor: draws the cells; by default this process. It is not closed.
    """
    with in_one_line(setup, workspace):
        open_search(workspace)
        worker = Worker(setup, workspace, watcher, executor)
        try:
            return worker.work()
        finally:
            with shielded():
                worker.leases.close()


def open_search(workspace: Workspace) -> None:
    """Create the search's database, if it is a file; on a server, `Ledger` creates the tables."""
    if not workspace.storage:
        make_whole(workspace.search, make_tables)


@contextmanager
def in_one_line(setup: Setup, workspace: Workspace) -> Iterator[None]:
    """Raise errors of the disk, the database and the tracking server as one clear line."""
    try:
        yield
    except UserError as error:
        if is_full(error):
            raise _no_room(setup, workspace) from None
        gone = not workspace.storage and not workspace.search.exists()
        if gone:  # SQLite's own message does not say so
            raise UserError(f"study {setup.key}: {workspace.search} is gone") from None
        raise
    except TROUBLES as error:
        if is_full(error):
            raise _no_room(setup, workspace) from None
        lasting = isinstance(error, OSError) or refuses(error)
        raise (UserError if lasting else PassingError)(
            f"study {setup.key}: cannot be recorded: {hide_secrets(first_line(error))};"
            " the same command continues"
        ) from None


def _no_room(setup: Setup, workspace: Workspace) -> UserError:
    needed = disk_bytes(setup, count(setup.study))
    what = full(workspace.mlruns, needed)
    return UserError(f"study {setup.key}: {what}, then the same command continues")


class Worker:
    """One process that works on a study."""

    def __init__(
        self, setup: Setup, workspace: Workspace, watcher: Watcher, executor: Executor | None = None
    ) -> None:
        self._executor = executor or InProcess(setup)
        self._shards = ShardFiles(cache_folder(), setup, self._executor.threads)
        self.setup, self.study, self.watcher = setup, setup.study, watcher
        self.ledger = Ledger(workspace.search_url, setup.key, setup.study)
        self.leases = Leases(workspace.search_url, setup.key)
        self.tracker = Tracker(workspace)
        self._presence = (
            f"worker/{self.leases.owner.split()[-1]}"  # the lease that shows it is here
        )
        self.leases.sweep()
        self.leases.take(self._presence)
        self.limits = Limits(self.study)
        origins = Origins(dict(setup.files))
        self.claims = Claims(self.study, self.ledger, self.leases, self.limits, watcher, origins)

    def work(self) -> Outcome:
        """Claim and run trials until none is left, then write the study's summary."""
        entries = self.ledger.entries()
        already = finished(entries)
        total = self.study.trials + planned(self.study)
        self.watcher.began(already, total, best(self.study, entries))
        record = self._find_record(entries)
        if record is not None and is_done(self.study, entries) and record.is_whole():
            record.touch()
            failed = [(e.number, "failed before") for e in entries if e.state == "failed"]
            return Outcome(already, 0, failed)
        tags = tags_of(self.setup)
        with shielded(), self.leases.alone():
            self.record = open_record(self.tracker, self.setup, tags)
        beside = self.record.beside(tags)
        held = self.ledger, self.leases, self.record
        self.runner = Runner(self.setup, *held, beside, self.watcher, self._executor, self._shards)
        with self._closing():
            with self.leases.alone():
                if not self.record.has_baselines():
                    self.record.log_baselines(baselines(self.setup))
            reasons = dict(Flights(self.study, self.claims, self.runner, self._executor))
            with shielded(), self.leases.alone():
                self._finish()
        failures = [(number, reason) for number, reason in reasons.items() if reason]
        entries = self.ledger.entries()
        if is_done(self.study, entries):
            self._shards.remove()  # what was drawn with other threads, or of a trial taken over
        return Outcome(already, len(reasons), failures, self.limits.reached(entries))

    def _find_record(self, entries: list[Entry]) -> StudyRun | None:
        """The study's record, or None if there is none yet. A trial is recorded before the search
        learns its result, so a record that lacks the last finished trial is another study's."""
        record = find_study(self.tracker, self.study.name, self.setup.key)
        last = max((entry.number for entry in entries if not entry.running), default=None)
        if last is None or (record is not None and record.has_trial(last)):
            return record
        raise UserError(
            f"study {self.setup.key}: its search has {finished(entries)} finished trials, but the"
            f" record {masked(self.tracker.uri)} has no trial {last}: give the record that the"
            " study began with, or start anew without either"
        )

    def _finish(self) -> None:
        """Write the study's summary and close it: when its last trial is done, by the first worker
        that sees so; when a limit ends it, by the last worker."""
        self.leases.release(self._presence)  # of two that leave at once, one must find itself alone
        entries = self.ledger.entries()
        left_alone = self.limits.reached(entries) and not self.leases.others("worker/")
        if self.record.is_whole() or not (is_done(self.study, entries) or left_alone):
            return
        self._compare(entries)
        shares_by_metric = importance(self.study, entries)
        self.record.log_document(IMPORTANCE, shares_by_metric)
        shares = {
            f"importance/{metric}/{method}/{knob}": share
            for metric, methods in shares_by_metric.items()
            for method, knobs in methods.items()
            for knob, share in knobs.items()
        }
        self.record.log(self.record.run_id, summary(self.study, entries) | shares)
        best_trial = best_entry(self.study, entries)
        self.record.log_document(SUMMARY, summary_document(self.study, entries))
        if best_trial is not None:
            self.record.name_best(best_trial.number)
        self.record.close_all("complete", self.limits.reached(entries))

    def _compare(self, entries: list[Entry]) -> None:
        """Write what needs the features of several trials."""
        features = self.runner.features
        made = {
            CONFIRMATION: confirmation_document(self.setup, entries, features),
            LADDER: ladder_document(self.setup, features, entries),
            COMPARISONS: comparisons_document(self.setup, entries, features),
        }
        for name, document in made.items():
            if document is not None:
                self.record.log_document(name, document)

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """If the block raises, close this worker's runs; the last worker closes the study's."""
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            state, reason = ("interrupted", "Ctrl-C") if stopped else ("failed", first_line(error))
            self.leases.hurry()
            with shielded(), suppress(UserError, *TROUBLES):
                for run_id in self.runner.open:
                    self.record.interrupt(run_id, "the study was stopped")
                with self.leases.alone():
                    self.leases.release(self._presence)
                    if not self.leases.others("worker/"):
                        self.record.close_all(state, reason)
            raise
