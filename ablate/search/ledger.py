"""The trials of a study in Optuna's database: what was proposed, and the results."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState

from ablate.core.workspace import sqlite_url
from ablate.results import Value
from ablate.search.database import driven, options, patiently, set_up
from ablate.search.entries import Entry, searched
from ablate.search.proposals import distribution, keeps, learns, propose, sees_running
from ablate.search.storage import TrialStorage, trial_id
from ablate.study.definition import Study

PLACE = "ablate:place"
"""Attribute with a proposal's index, or what it confirms. It differs from the trial's number if an
earlier proposal was written twice."""

CONFIRMS = "ablate:confirms"
"""Attribute of a trial that measures another's configuration again, with that trial's number."""

SPENT = "evaluations"
STATES = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


def make_tables(file: Path) -> None:
    """Create Optuna's tables in a new file."""
    optuna.storages.RDBStorage(sqlite_url(file)).engine.dispose()


class Ledger:
    """The trials of one study: reads them, adds proposals, writes results."""

    def __init__(self, url: str, key: str, study: Study) -> None:
        self._spec = study
        self._study = set_up(lambda: self._open(driven(url), key))
        self._storage = TrialStorage(self._study)
        self._rows = 0  # trials in the database at the last read
        self._settled = 0  # the first so many of them are finished, and not read again
        self._seen: list[FrozenTrial] = []  # trials that count
        self._entries: list[Entry] = []  # the same, as entries
        self._doubles: list[FrozenTrial] = []  # running trials that do not count
        self._places: dict[int, int] = {}  # proposal -> number of the first trial that has it

    def _open(self, url: str, key: str) -> optuna.Study:
        return optuna.create_study(
            storage=optuna.storages.RDBStorage(url, engine_kwargs=options(url)),
            study_name=key,
            directions=[o.direction for o in self._spec.objectives],
            sampler=RandomSampler(),  # not used: proposals come from `propose`
            load_if_exists=True,
        )

    def entries(self) -> list[Entry]:
        """All trials by number, as they are now. Only trials that may have changed are read: a
        study may have ten thousand."""
        trials = patiently(lambda: self._study.get_trials(deepcopy=False))
        self._rows = len(trials)
        kept = bisect.bisect_left(self._entries, self._settled, key=lambda entry: entry.number)
        del self._seen[kept:], self._entries[kept:]
        self._doubles = []
        for trial in trials[self._settled :]:
            if self._counts(trial):
                self._seen.append(trial)
                self._entries.append(_entry(trial))
            elif not trial.state.is_finished():
                self._doubles.append(trial)
        while self._settled < self._rows and trials[self._settled].state.is_finished():
            self._settled += 1
        return list(self._entries)

    def _counts(self, trial: FrozenTrial) -> bool:
        """Whether a trial is the first with its proposal. A proposal is written twice if the
        database's answer got lost, or if a server restarted and with it a worker lost its lock."""
        place = trial.system_attrs.get(PLACE, trial.number)
        return self._places.setdefault(place, trial.number) == trial.number

    def drop_doubles(self) -> None:
        """Fail the trials that do not count: no worker runs them."""
        for trial in self._doubles:
            self._set_state(trial_id(trial), TrialState.FAIL)

    def is_running(self, number: int) -> bool:
        trial = self._id_of(number)
        return not patiently(lambda: self._storage.is_finished(trial))

    def propose_next(self, entries: Sequence[Entry]) -> Entry | None:
        """Propose the trial that follows `entries` and write it as running.

        Only one worker at a time may read the entries and propose. Returns None if another worker
        proposed first or the answer was lost: read the entries again.
        """
        place = len(searched(entries))
        seen = self._seen if learns(self._spec) else []
        history = [
            trial
            for trial in seen
            if (trial.state.is_finished() or sees_running(self._spec))
            and CONFIRMS not in trial.system_attrs
        ]
        proposal = propose(self._spec, place, history)
        return self._write(proposal.params, {**proposal.memory, PLACE: place})

    def propose_again(self, entry: Entry) -> Entry | None:
        """Write as running that a trial's configuration is measured again; else as above."""
        attributes = {PLACE: f"confirms/{entry.number}", CONFIRMS: entry.number}
        return self._write(entry.params, attributes)

    def _write(self, params: dict[str, Value], attributes: dict[str, Any]) -> Entry | None:
        number = self._rows
        template = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=params,
            distributions={k: distribution(self._spec.domain(k)) for k in params},
            system_attrs=attributes,
        )
        attempts = itertools.count()

        def add() -> int | None:
            if next(attempts):
                return None  # the first attempt may have written it, and its answer was lost
            return self._storage.create(template)

        written = patiently(add)
        if written is None or self._id_of(number) != written:
            return None
        return Entry(number, params, "running", confirms=attributes.get(CONFIRMS))

    def complete(
        self, number: int, values: Sequence[float], violations: Mapping[str, float]
    ) -> None:
        """Write the result of a complete trial. `violations`: by how much each constraint is
        exceeded, at most 0 if it is kept."""
        trial = self._id_of(number)
        self._note(trial, violations)
        self._set_state(trial, TrialState.COMPLETE, list(values))

    def prune(
        self,
        number: int,
        violations: Mapping[str, float],
        value: float | None,
        samples: int,
        spent: int = 0,
    ) -> None:
        """Write the result of a trial that was pruned or diverged; search methods learn from it.
        `value` is the objective on the samples drawn, `spent` the evaluations of the network."""
        trial = self._id_of(number)
        self._note(trial, violations, spent)
        if value is None or len(self._spec.objectives) > 1:
            self._set_state(trial, TrialState.PRUNED)
        else:
            with suppress(UpdateFinishedTrialError):
                patiently(lambda: self._storage.set_intermediate_value(trial, samples, value))
            self._set_state(trial, TrialState.PRUNED, [value])

    def fail(self, number: int, spent: int = 0) -> None:
        """Write that a trial failed: it has no result."""
        trial = self._id_of(number)
        self._note(trial, {}, spent)
        self._set_state(trial, TrialState.FAIL)

    def _id_of(self, number: int) -> int:
        return patiently(lambda: self._storage.id_of(number))

    def _note(self, trial: int, violations: Mapping[str, float], spent: int = 0) -> None:
        def note() -> None:
            if spent:
                self._storage.set_user_attribute(trial, SPENT, spent)
            self._storage.set_constraints(trial, violations)

        with suppress(UpdateFinishedTrialError):
            patiently(note)

    def _set_state(self, trial: int, state: TrialState, values: list[float] | None = None) -> None:
        """Finish a trial. If an answer got lost and this is the second time, nothing changes."""
        with suppress(UpdateFinishedTrialError):
            patiently(lambda: self._storage.set_state(trial, state, values))


def _entry(trial: FrozenTrial) -> Entry:
    has_values = trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and (
        trial.values is not None
    )
    values = tuple(trial.values) if has_values else ()
    return Entry(
        trial.number,
        trial.params,
        STATES[trial.state],
        values,
        keeps(trial),
        int(trial.user_attrs.get(SPENT, 0)),
        trial.system_attrs.get(CONFIRMS),
    )
