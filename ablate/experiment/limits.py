"""Limits that end a study before its last trial: a worker's minutes, network evaluations."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic import ValidationError

from ablate.experiment.confirmation import unconfirmed
from ablate.search import Entry, searched
from ablate.study.definition import Study


class Limits:
    """The limits of a study, for one worker. Its minutes count from here."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._began = time.monotonic()
        self._costs: dict[int, int] = {}  # trial -> evaluations, if it is run to its end

    def reached(self, entries: Sequence[Entry]) -> str | None:
        """Which limit keeps the study from a further trial, in words; None if none does."""
        if len(searched(entries)) >= self._study.trials and not unconfirmed(self._study, entries):
            return None
        if self.out_of_time():
            return f"{self._study.minutes:g} minutes are over"
        if self._study.evaluations is None:
            return None
        spent = sum(self._spent(entry) for entry in entries)
        if spent >= self._study.evaluations:
            return f"{spent:,} of {self._study.evaluations:,} network evaluations are spent"
        return None

    def out_of_time(self) -> bool:
        """Whether this worker's minutes are over; other workers may have some left."""
        minutes = (time.monotonic() - self._began) / 60
        return self._study.minutes is not None and minutes >= self._study.minutes

    def _spent(self, entry: Entry) -> int:
        """Evaluations of the network, for single images; of a running trial, what it may take."""
        if not (entry.running or entry.state == "complete"):
            return entry.evaluations
        if entry.number not in self._costs:
            try:
                nfe = self._study.settings(entry.params).nfe
            except ValidationError:  # the trial is about to fail
                nfe = 0
            samples, seeds = self._study.samples, self._study.seeds
            if entry.confirms is not None:
                samples, seeds = self._study.confirm.samples or samples, self._study.confirm.seeds
            self._costs[entry.number] = nfe * samples * len(seeds)
        return self._costs[entry.number]
