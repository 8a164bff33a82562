"""The trials as Optuna's storage has them: what was proposed and what came of it."""

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
from ablate.study.definition import Study


class Entry(NamedTuple):
    """A trial as the search knows it."""

    number: int
    params: dict[str, Value]
    state: str  # running, complete, pruned or failed
    values: tuple[float, ...] = ()  # of the objectives; of a pruned one, as far as it was drawn
    feasible: bool = True  # within all constraints
    evaluations: int = 0  # of the network, for single images, if it was not completed

    @property
    def running(self) -> bool:
        return self.state == "running"


PLACE = "ablate:place"
"""Which proposal a trial is: its number too, unless one before it was written down twice."""

SPENT = "evaluations"
STATES = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


def make_tables(file: Path) -> None:
    """In a file of its own, to be put in its place as a whole."""
    optuna.storages.RDBStorage(f"sqlite:///{file}").engine.dispose()


class Ledger:
    """The study's trials in Optuna's storage: what was proposed and what came of it."""

    def __init__(self, url: str, key: str, study: Study) -> None:
        self._spec = study
        self._study = set_up(lambda: self._open(driven(url), key))
        self._rows = 0  # trials that the storage has, at the last look
        self._settled = 0  # so many of them, the first, will not change any more
        self._seen: list[FrozenTrial] = []  # those that count
        self._entries: list[Entry] = []  # what is to be said of these
        self._doubles: list[FrozenTrial] = []  # those that do not count and are not failed yet
        self._places: dict[int, int] = {}  # proposal -> number of the trial that it was first

    def _open(self, url: str, key: str) -> optuna.Study:
        return optuna.create_study(
            storage=optuna.storages.RDBStorage(url, engine_kwargs=options(url)),
            study_name=key,
            directions=[o.direction for o in self._spec.objectives],
            sampler=RandomSampler(),  # never asked
            load_if_exists=True,
        )

    def entries(self) -> list[Entry]:
        """All trials by number, as they are now. Only what may have changed is read: a study may
        have ten thousand."""
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
        """Not if it is a proposal that was written down before: an answer got lost, or a server
        that went away took a worker's turn along."""
        place = trial.system_attrs.get(PLACE, trial.number)
        return self._places.setdefault(place, trial.number) == trial.number

    def drop_doubles(self) -> None:
        """Nobody runs them: they are not to be left running."""
        for trial in self._doubles:
            self._tell(trial._trial_id, TrialState.FAIL)

    def is_running(self, number: int) -> bool:
        trial = self._find(number)
        return not patiently(lambda: self._storage.get_trial(trial)).state.is_finished()

    def propose_next(self, entries: Sequence[Entry]) -> Entry | None:
        """Write the trial that follows on `entries`, this ledger's, down as running. For one worker
        at a time, from reading the entries on; None if that was not so, or cannot be told: look at
        the entries again."""
        place, number = len(entries), self._rows
        over = self._seen if learns(self._spec) else []
        history = [trial for trial in over if trial.state.is_finished()]
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
                return None  # it may be written, and the answer lost
            return self._storage.create_new_trial(self._study._study_id, template)

        written = patiently(add)
        if written is None or self._find(number) != written:
            return None
        return Entry(number, proposal.params, "running")

    def complete(
        self, number: int, values: Sequence[float], violations: Mapping[str, float]
    ) -> None:
        """`violations`: by how much each constraint is exceeded, at most 0 if it is kept."""
        trial = self._find(number)
        self._note(trial, violations)
        self._tell(trial, TrialState.COMPLETE, list(values))

    def prune(
        self,
        number: int,
        violations: Mapping[str, float],
        value: float | None,
        samples: int,
        spent: int = 0,
    ) -> None:
        """Given up, or diverged: a result all the same, from which search methods learn. `value` is
        the objective's, as far as the trial was drawn; `spent`: evaluations of the network."""
        trial = self._find(number)
        self._note(trial, violations, spent)
        if value is None or len(self._spec.objectives) > 1:
            self._tell(trial, TrialState.PRUNED)
        else:
            with suppress(UpdateFinishedTrialError):
                patiently(lambda: self._storage.set_trial_intermediate_value(trial, samples, value))
            self._tell(trial, TrialState.PRUNED, [value])

    def fail(self, number: int, spent: int = 0) -> None:
        """No result."""
        trial = self._find(number)
        self._note(trial, {}, spent)
        self._tell(trial, TrialState.FAIL)

    # Straight to the storage: `Study.tell` and `Trial` read the trial anew at every step.

    @property
    def _storage(self) -> optuna.storages.BaseStorage:
        return self._study._storage

    def _find(self, number: int) -> int:
        """Optuna's own name for it."""
        study = self._study._study_id
        return patiently(
            lambda: self._storage.get_trial_id_from_study_id_trial_number(study, number)
        )

    def _note(self, trial: int, violations: Mapping[str, float], spent: int = 0) -> None:
        def note() -> None:
            if spent:
                self._storage.set_trial_user_attr(trial, SPENT, spent)
            for name, value in violations.items():
                optuna.Trial(self._study, trial).set_constraint(name, value)

        with suppress(UpdateFinishedTrialError):
            patiently(note)

    def _tell(self, trial: int, state: TrialState, values: list[float] | None = None) -> None:
        """Once: told again after an answer got lost, it stays as it was."""
        with suppress(UpdateFinishedTrialError):
            patiently(lambda: self._storage.set_trial_state_values(trial, state, values))


def best(study: Study, entries: Sequence[Entry]) -> float | None:
    """The best value of the first objective so far."""
    done = [entry for entry in entries if entry.state == "complete" and entry.feasible]
    better = min if study.objectives[0].direction == "minimize" else max
    return better((entry.values[0] for entry in done), default=None)


def finished(entries: Sequence[Entry]) -> int:
    return sum(not entry.running for entry in entries)


def _entry(trial: FrozenTrial) -> Entry:
    told = trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.values is not None
    values = tuple(trial.values) if told else ()
    spent = int(trial.user_attrs.get(SPENT, 0))
    return Entry(trial.number, trial.params, STATES[trial.state], values, keeps(trial), spent)


def summary(study: Study, entries: Sequence[Entry]) -> dict[str, float]:
    """What came of a study, in numbers: trials by their state, and the best of each objective."""
    told = {f"trials/{state}": 0.0 for state in STATES.values() if state != "running"}
    for entry in entries:
        told[f"trials/{entry.state}"] = told.get(f"trials/{entry.state}", 0.0) + 1
    done = [entry for entry in entries if entry.state == "complete" and entry.feasible]
    for place, objective in enumerate(study.objectives if done else ()):
        better = min if objective.direction == "minimize" else max
        top = better(done, key=lambda entry: entry.values[place])
        told[f"best/{objective.metric}"] = top.values[place]
        told[f"best/{objective.metric}/trial"] = float(top.number)
    return told
