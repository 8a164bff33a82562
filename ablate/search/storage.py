"""Direct access to Optuna's storage: the one file that uses private parts of Optuna.

The private parts are `Study._storage` and `Study._study_id`, `FrozenTrial._trial_id` and
`Trial._suggest`. Optuna's public `Study.tell` and `Trial` read the trial again at every step, each
time with a query that all workers wait for; and the public methods that suggest a value are one for
each kind of distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from ablate.results import Value


class TrialStorage:
    """The trials of one study, written straight to its storage.

    A trial has a number, which counts within the study, and an id, which is the storage's own.
    """

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self.storage: optuna.storages.BaseStorage = study._storage

    def id_of(self, number: int) -> int:
        study = self._study._study_id
        return self.storage.get_trial_id_from_study_id_trial_number(study, number)

    def create(self, template: FrozenTrial) -> int:
        """Write a new trial; returns its id."""
        return self.storage.create_new_trial(self._study._study_id, template)

    def is_finished(self, trial: int) -> bool:
        return self.storage.get_trial(trial).state.is_finished()

    def set_state(self, trial: int, state: TrialState, values: list[float] | None) -> None:
        self.storage.set_trial_state_values(trial, state, values)

    def set_intermediate_value(self, trial: int, step: int, value: float) -> None:
        self.storage.set_trial_intermediate_value(trial, step, value)

    def set_user_attribute(self, trial: int, name: str, value: Any) -> None:
        self.storage.set_trial_user_attr(trial, name, value)

    def set_constraints(self, trial: int, violations: Mapping[str, float]) -> None:
        for name, value in violations.items():
            optuna.Trial(self._study, trial).set_constraint(name, value)


def trial_id(trial: FrozenTrial) -> int:
    """The storage's id of a trial."""
    return trial._trial_id


def suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Value:
    """A value of any distribution, as the trial's sampler suggests it."""
    value: Value = trial._suggest(name, distribution)
    return value
