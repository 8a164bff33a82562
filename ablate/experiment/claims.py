"""Which trial a worker runs next: one that a dead worker began, or a new one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

from ablate.core.signals import shielded
from ablate.experiment.confirmation import unconfirmed
from ablate.experiment.leases import Leases
from ablate.experiment.limits import Limits
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
        self, study: Study, ledger: Ledger, leases: Leases, limits: Limits, watcher: Watcher
    ) -> None:
        self._study, self._ledger, self._leases = study, ledger, leases
        self._limits, self._watcher = limits, watcher

    def __iter__(self) -> Iterator[Claim]:
        """Claim trials until the study has no more. While other workers run trials this one waits:
        if one of them dies, it claims that worker's trial."""
        pause, reported = POLL[0], -math.inf
        while True:
            with shielded(), self._leases.alone():
                entries = self._ledger.entries()
                self._ledger.drop_doubles()
                claim = self.claim(entries)
            if claim is None or time.monotonic() >= reported + REPORT:
                self._watcher.stands(finished(entries), best(self._study, entries))
                reported = time.monotonic()
            if claim is not None:
                yield claim
                self._leases.finish(item(claim.entry))
                pause = POLL[0]
            elif self._limits.out_of_time() or not any(entry.running for entry in entries):
                return
            else:
                time.sleep(pause)
                pause = min(2 * pause, POLL[1])

    def claim(self, entries: list[Entry]) -> Claim | None:
        """A running trial without a worker, else a new trial; None if there is neither."""
        running = [entry for entry in entries if entry.running]
        held = self._leases.others("trial/") if running else set()
        for entry in running:
            if item(entry) not in held and self._leases.take(item(entry)):
                if self._ledger.is_running(entry.number):
                    return Claim(entry, True, entries)
                self._leases.release(item(entry))  # finished since the entries were read
        if self._limits.reached(entries):
            return None
        left = unconfirmed(self._study, entries)
        if len(searched(entries)) < self._study.trials:
            proposed = self._ledger.propose_next(entries)
        elif left:
            proposed = self._ledger.propose_again(left[0])
        else:
            return None
        if proposed is None or not self._leases.take(item(proposed)):
            # another worker proposed first: the server was away and the lock was lost
            return self.claim(self._ledger.entries())
        return Claim(proposed, False, entries)
