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

from ablate.core.registry import resolved
from ablate.results import Value
from ablate.study.definition import Study
from ablate.study.domain import Domain
from ablate.study.methods import METHODS

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
    """Whether proposals depend on earlier results."""
    return METHODS[study.method].learns


def propose(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """The n-th proposal, given the finished trials before it."""
    if n < len(study.first):
        return Proposal(dict(study.first[n]), {})
    found: Proposal = resolved(METHODS[study.method].propose)(study, n, history)
    return found


def from_grid(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Every configuration once, in order."""
    return Proposal(next(itertools.islice(study.grid(), n - len(study.first), None)), {})


def at_random(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Uniform draws."""
    rng = np.random.default_rng([study.seed, n - len(study.first)])
    return _at(study, rng.random(len(study.search)))


def by_sobol(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Points of a scrambled Sobol sequence."""
    from scipy.stats.qmc import Sobol

    place = n - len(study.first)
    sobol = Sobol(len(study.search), scramble=True, rng=np.random.default_rng(study.seed))
    if place > 0:  # fast_forward(0) overflows
        sobol.fast_forward(place)
    return _at(study, np.asarray(sobol.random(1)[0]))


def _at(study: Study, point: np.ndarray[Any, np.dtype[np.float64]]) -> Proposal:
    """The configuration at a point of the unit cube, a coordinate for each searched knob."""
    params: dict[str, Value] = {}
    for knob, u in zip(study.order(), point, strict=True):
        if study.applies(knob, {**study.fixed, **params}):
            params[knob] = from_unit(study.search[knob], float(u))
    return Proposal(params, {})


def by_tpe(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Optuna's tree-structured Parzen estimator, over all knobs together."""
    startup = len(study.first) + RANDOM
    sampler = TPESampler(seed=_seed(study, n), multivariate=True, n_startup_trials=startup)
    return _ask(study, history, sampler)


def by_gp(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Optuna's Gaussian-process optimisation."""
    sampler = GPSampler(seed=_seed(study, n), warn_independent_sampling=False)
    return _ask(study, history, sampler)


def by_cmaes(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Optuna's CMA-ES; it adds the trial's number to its seed by itself."""
    sampler = CmaEsSampler(
        seed=study.seed,
        independent_sampler=RandomSampler(seed=_seed(study, n)),
        warn_independent_sampling=False,
    )
    return _ask(study, history, sampler)


def _seed(study: Study, n: int) -> int:
    digest = hashlib.blake2b(f"search/{study.seed}/{n}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def _ask(study: Study, history: Sequence[FrozenTrial], sampler: BaseSampler) -> Proposal:
    """What a fresh sampler of Optuna's suggests, given the history."""
    shadow = optuna.create_study(
        directions=[o.direction for o in study.objectives], sampler=sampler
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
