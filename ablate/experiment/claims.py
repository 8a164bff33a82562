"""Which trial a worker runs next: one that a dead worker began, or a new one."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from typing import NamedTuple

from ablate.core.signals import shielded
from ablate.experiment.confirmation import unconfirmed
from ablate.experiment.leases import Leases
from ablate.experiment.limits import Limits
from ablate.experiment.origins import Origins
from ablate.experiment.watcher import Watcher
from ablate.search import Entry, Ledger, best, finished, searched
from ablate.study.definition import Study

POLL = 0.05, 0.5
"""Seconds between checks whether other workers have finished: the first pause, the longest."""

REPORT = 0.2
"""Shortest time between two reports to the watcher, in seconds."""


class Claim(NamedTuple):
    """A trial that this worker holds the lease of."""

    entry: Entry
    again: bool  # another worker began it
    entries: list[Entry]  # the study's trials at the moment of the claim


def item(entry: Entry) -> str:
    """The name of a trial's lease."""
    return f"trial/{entry.number}"


class Claims:
    """Claims trials of a study for one worker."""

    def __init__(
        self,
        study: Study,
        ledger: Ledger,
        leases: Leases,
        limits: Limits,
        watcher: Watcher,
        origins: Origins,
    ) -> None:
        """origins: files that a trial may begin with only if they have not changed."""
        self._study, self._ledger, self._leases = study, ledger, leases
        self._limits, self._watcher, self._origins = limits, watcher, origins
        self._entries: list[Entry] = []  # as they were at the last look
        self._reported, self._pause = -math.inf, POLL[0]

    def next(self, mine: Collection[int] = ()) -> Claim | None:
        """Claim a trial, if there is one that nobody runs. `mine`: the trials that this worker runs
        already."""
        with shielded(), self._leases.alone():
            self._entries = self._ledger.entries()
            self._ledger.drop_doubles()
            claim = self.claim(self._entries, mine)
        if claim is None or time.monotonic() >= self._reported + REPORT:
            self._watcher.stands(finished(self._entries), best(self._study, self._entries))
            self._reported = time.monotonic()
        if claim is not None:
            self._pause = POLL[0]
        return claim

    def wait(self) -> bool:
        """Wait a little for other workers, after there was nothing to claim: if one of them dies,
        its trial is claimed next. Returns False if nobody runs a trial any more."""
        if self._limits.out_of_time() or not any(entry.running for entry in self._entries):
            return False
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, POLL[1])
        return True

    def finish(self, claim: Claim) -> None:
        """Give the lease of a finished trial back."""
        self._leases.finish(item(claim.entry))

    def claim(self, entries: list[Entry], mine: Collection[int] = ()) -> Claim | None:
        """A running trial without a worker, else a new trial; None if there is neither."""
        running = [entry for entry in entries if entry.running and entry.number not in mine]
        held = self._leases.others("trial/") if running else set()
        for entry in running:
            if item(entry) in held:
                continue
            self._origins.require()
            if self._leases.take(item(entry)):
                if self._ledger.is_running(entry.number):
                    return Claim(entry, True, entries)
                self._leases.release(item(entry))  # finished since the entries were read
        if self._limits.reached(entries):
            return None
        left = unconfirmed(self._study, entries)
        if left or len(searched(entries)) < self._study.trials:
            self._origins.require()
        if len(searched(entries)) < self._study.trials:
            proposed = self._ledger.propose_next(entries)
        elif left:
            proposed = self._ledger.propose_again(left[0])
        else:
            return None
        if proposed is None or not self._leases.take(item(proposed)):
            # another worker proposed first: the server was away and the lock was lost
            return self.claim(self._ledger.entries(), mine)
        return Claim(proposed, False, entries)
