"""The private parts of Optuna that `ablate.search.storage` uses: they exist and behave as it needs.

A failure here means that a new version of Optuna moved a part. Only `ablate/search/storage.py` has
to follow.
"""

from __future__ import annotations

import re
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

import ablate
from ablate.search.storage import TrialStorage, suggest, trial_id

PRIVATE = r"\._(storage|study_id|suggest|trial_id)\b"


@pytest.fixture
def study() -> optuna.Study:
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))


def require(thing: object, part: str) -> None:
    name = f"{type(thing).__module__.split('.')[0]}'s {type(thing).__name__}.{part}"
    assert hasattr(thing, part), f"{name} moved: ablate/search/storage.py uses it"


def running(value: float) -> FrozenTrial:
    return optuna.trial.create_trial(
        state=TrialState.RUNNING,
        params={"r": value},
        distributions={"r": FloatDistribution(0.0, 1.0)},
    )


@pytest.mark.parametrize("part", ["_storage", "_study_id"])
def test_a_study_has_its_private_parts(study: optuna.Study, part: str) -> None:
    require(study, part)


def test_a_trial_has_its_private_parts(study: optuna.Study) -> None:
    require(study.ask(), "_suggest")
    require(study.trials[0], "_trial_id")


@pytest.mark.parametrize(
    "part",
    [
        "create_new_trial",
        "get_trial",
        "get_trial_id_from_study_id_trial_number",
        "set_trial_intermediate_value",
        "set_trial_state_values",
        "set_trial_user_attr",
    ],
)
def test_a_storage_has_the_methods_that_are_called(study: optuna.Study, part: str) -> None:
    require(study._storage, part)


def test_a_trial_is_written_and_finished_through_the_storage(study: optuna.Study) -> None:
    storage = TrialStorage(study)
    written = [storage.create(running(value)) for value in (0.25, 0.5)]
    assert [storage.id_of(number) for number in (0, 1)] == written
    assert [trial_id(trial) for trial in study.trials] == written
    assert [trial.params for trial in study.trials] == [{"r": 0.25}, {"r": 0.5}]
    first, second = written
    assert not storage.is_finished(first)
    storage.set_user_attribute(first, "evaluations", 7)
    storage.set_constraints(first, {"flip_rate": 0.5})
    storage.set_intermediate_value(second, 64, 3.0)
    storage.set_state(first, TrialState.COMPLETE, [2.0])
    storage.set_state(second, TrialState.PRUNED, [3.0])
    assert storage.is_finished(first)
    complete, pruned = study.trials
    assert (complete.state, complete.values) == (TrialState.COMPLETE, [2.0])
    assert complete.user_attrs["evaluations"] == 7
    assert complete.constraints == {"flip_rate": 0.5}
    assert (pruned.state, pruned.values) == (TrialState.PRUNED, [3.0])
    assert pruned.intermediate_values == {64: 3.0}


def test_a_finished_trial_cannot_be_changed(study: optuna.Study) -> None:
    """`Ledger` relies on this error when it sends a result twice."""
    storage = TrialStorage(study)
    trial = storage.create(running(0.5))
    storage.set_state(trial, TrialState.COMPLETE, [1.0])
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_state(trial, TrialState.FAIL, None)


def test_a_value_of_any_distribution_is_suggested(study: optuna.Study) -> None:
    trial = study.ask()
    distributions = {
        "r": FloatDistribution(0.5, 1.0),
        "L": IntDistribution(1, 3),
        "init": CategoricalDistribution(["gaussian", "lognormal"]),
    }
    params = {name: suggest(trial, name, each) for name, each in distributions.items()}
    assert params == study.trials[0].params
    assert study.trials[0].distributions == distributions


def test_one_file_uses_them() -> None:
    root = Path(ablate.__file__).parent
    users = {
        path.relative_to(root).as_posix()
        for path in (root / "search").rglob("*.py")
        if re.search(r"(study|trial)" + PRIVATE, path.read_text())
    }
    assert users == {"search/storage.py"}
