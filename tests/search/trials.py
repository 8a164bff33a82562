"""Finished trials, as search methods read them, without a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ablate.search.proposals import Proposal, distribution, propose
from ablate.study.definition import Study


def finished(
    study: Study,
    number: int,
    proposal: Proposal,
    value: float | None,
    state: TrialState = TrialState.COMPLETE,
    violations: Mapping[str, float] | None = None,
) -> FrozenTrial:
    """The trial of a proposal, with its result."""
    trial = optuna.trial.create_trial(
        state=state,
        params=proposal.params,
        distributions={k: distribution(study.domain(k)) for k in proposal.params},
        values=None if value is None else [value],
        system_attrs=dict(proposal.memory),
    )
    for name, by in (violations or {}).items():
        trial.set_constraint(name, by)
    trial.number = number
    return trial


def searched(
    study: Study, objective: Callable[[Mapping[str, Any]], float], count: int
) -> list[FrozenTrial]:
    """The first trials of a search by one worker."""
    history: list[FrozenTrial] = []
    while len(history) < count:
        proposal = propose(study, len(history), history)
        history.append(finished(study, len(history), proposal, objective(proposal.params)))
    return history
