"""The trials of a study in Optuna's database: what was proposed, and the results."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState

from ablate.results import Value
from ablate.search.database import driven, options, patiently, set_up
from ablate.search.proposals import distribution, keeps, learns, propose
from ablate.search.storage import TrialStorage, trial_id
from ablate.study.definition import Study


class Entry(NamedTuple):
    """A trial in the search's database."""

    number: int
    params: dict[str, Value]
    state: str  # running, complete, pruned or failed
    values: tuple[float, ...] = ()  # of the objectives; of a pruned trial, on the samples it has
    feasible: bool = True  # within all constraints
    evaluations: int = 0  # of the network, for single images, if the trial is not complete

    @property
    def running(self) -> bool:
        return self.state == "running"


PLACE = "ablate:place"
"""Attribute with a proposal's index. It differs from the trial's number if an earlier proposal was
written twice."""

SPENT = "evaluations"
STATES = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


def make_tables(file: Path) -> None:
    """Create Optuna's tables in a new file."""
    optuna.storages.RDBStorage(f"sqlite:///{file}").engine.dispose()


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
        place, number = len(entries), self._rows
        seen = self._seen if learns(self._spec) else []
        history = [trial for trial in seen if trial.state.is_finished()]
        proposal = propose(self._spec, place, history)
        template = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=proposal.params,
            distributions={k: distribution(self._spec.domain(k)) for k in proposal.params},
            system_attrs={**proposal.memory, PLACE: place},
        )
        attempts = itertools.count()

        def add() -> int | None:
            if next(attempts):
                return None  # the first attempt may have written it, and its answer was lost
            return self._storage.create(template)

        written = patiently(add)
        if written is None or self._id_of(number) != written:
            return None
        return Entry(number, proposal.params, "running")

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


def best(study: Study, entries: Sequence[Entry]) -> float | None:
    """The best value of the first objective so far."""
    done = [entry for entry in entries if entry.state == "complete" and entry.feasible]
    better = min if study.objectives[0].direction == "minimize" else max
    return better((entry.values[0] for entry in done), default=None)


def finished(entries: Sequence[Entry]) -> int:
    """How many trials are not running any more."""
    return sum(not entry.running for entry in entries)


def _entry(trial: FrozenTrial) -> Entry:
    has_values = trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and (
        trial.values is not None
    )
    values = tuple(trial.values) if has_values else ()
    spent = int(trial.user_attrs.get(SPENT, 0))
    return Entry(trial.number, trial.params, STATES[trial.state], values, keeps(trial), spent)


def summary(study: Study, entries: Sequence[Entry]) -> dict[str, float]:
    """A study's results as metrics: trials by state, and the best value of each objective."""
    metrics = {f"trials/{state}": 0.0 for state in STATES.values() if state != "running"}
    for entry in entries:
        metrics[f"trials/{entry.state}"] = metrics.get(f"trials/{entry.state}", 0.0) + 1
    done = [entry for entry in entries if entry.state == "complete" and entry.feasible]
    for index, objective in enumerate(study.objectives if done else ()):
        better = min if objective.direction == "minimize" else max
        top = better(done, key=lambda entry: entry.values[index])
        metrics[f"best/{objective.metric}"] = top.values[index]
        metrics[f"best/{objective.metric}/trial"] = float(top.number)
    return metrics
