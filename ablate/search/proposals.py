"""What to try next: the search methods.

Proposal n is a function of (study, n, earlier results) and of nothing else. Optuna's samplers keep
random numbers and counters between calls, which a kill would lose; so each proposal is asked of a
fresh sampler, seeded by (seed, n), in a study in memory that holds the earlier results, and only
the answer is stored: whole, in one transaction.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from ablate.record import Value
from ablate.space import Domain
from ablate.spec import Study

RANDOM = 5
"""Random trials before TPE takes over, besides those that come first: studies are short."""


class Proposal(NamedTuple):
    params: dict[str, Value]
    memory: dict[str, Any]  # what the search method wants to find in this trial later


def distribution(domain: Domain) -> BaseDistribution:
    if domain.choices is not None:
        return CategoricalDistribution(domain.choices)
    if domain.whole:
        return IntDistribution(domain.low, domain.high, domain.log, domain.step or 1)  # type: ignore[arg-type]
    return FloatDistribution(domain.low, domain.high, domain.log, domain.step)  # type: ignore[arg-type]


def from_unit(domain: Domain, u: float) -> Value:
    """The domain's value at u in [0, 1): every value or equal stretch with the same chance."""
    if domain.choices is not None:
        return domain.choices[int(u * len(domain.choices))]
    if domain.spacing is not None and not domain.log:
        return domain.at(int(u * domain.count()))
    low, high = float(domain.low), float(domain.high)  # type: ignore[arg-type]
    if domain.whole:  # on a log scale: each number with half the way to its neighbours
        value = (low - 0.5) * ((high + 0.5) / (low - 0.5)) ** u
        return int(min(max(round(value), low), high))
    return low * (high / low) ** u if domain.log else low + u * (high - low)


def learns(study: Study) -> bool:
    """Whether proposals hang on earlier results."""
    return study.method not in ("grid", "random", "qmc")


def propose(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """The n-th proposal, given the finished trials before it."""
    if n < len(study.first):
        return Proposal(dict(study.first[n]), {})
    if study.method == "grid":
        return Proposal(next(itertools.islice(study.grid(), n - len(study.first), None)), {})
    if study.method in ("random", "qmc"):
        point = _unit_point(study, n - len(study.first))
        params: dict[str, Value] = {}
        for knob, u in zip(study.order(), point, strict=True):
            if study.applies(knob, {**study.fixed, **params}):
                params[knob] = from_unit(study.search[knob], float(u))
        return Proposal(params, {})
    return _ask(study, n, history)


def _unit_point(study: Study, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    size = len(study.search)
    if study.method == "random":
        return np.random.default_rng([study.seed, n]).random(size)
    from scipy.stats.qmc import Sobol

    sobol = Sobol(size, scramble=True, rng=np.random.default_rng(study.seed))
    if n > 0:  # fast_forward(0) overflows
        sobol.fast_forward(n)
    return np.asarray(sobol.random(1)[0])


def _ask(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    shadow = optuna.create_study(
        directions=[o.direction for o in study.objectives], sampler=_sampler(study, n)
    )
    shadow.add_trials(_usable(study, history))
    trial = shadow.ask()
    params: dict[str, Value] = {}
    for knob in study.order():
        if study.applies(knob, {**study.fixed, **params}):
            params[knob] = trial._suggest(knob, distribution(study.search[knob]))
    return Proposal(params, shadow.get_trials(deepcopy=False)[-1].system_attrs)


def _usable(study: Study, history: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """With several objectives Optuna cannot rank what was given up, unless a constraint does."""
    if len(study.objectives) == 1:
        return list(history)
    return [_failed(t) if t.state == TrialState.PRUNED and keeps(t) else t for t in history]


def keeps(trial: FrozenTrial) -> bool:
    """To every constraint."""
    return all(value <= 0 for value in trial.constraints.values())


def _failed(trial: FrozenTrial) -> FrozenTrial:
    lost = copy.copy(trial)
    lost.state = TrialState.FAIL
    return lost


def _sampler(study: Study, n: int) -> BaseSampler:
    digest = hashlib.blake2b(f"search/{study.seed}/{n}".encode(), digest_size=4).digest()
    seed = int.from_bytes(digest, "big")
    if study.method == "tpe":
        return TPESampler(seed=seed, multivariate=True, n_startup_trials=len(study.first) + RANDOM)
    if study.method == "gp":
        return GPSampler(seed=seed, warn_independent_sampling=False)
    return CmaEsSampler(  # adds the trial's number to its seed by itself
        seed=study.seed,
        independent_sampler=RandomSampler(seed=seed),
        warn_independent_sampling=False,
    )
