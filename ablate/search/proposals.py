"""The search methods: which configuration to try next.

Proposal n is a function of (study, n, earlier results) alone. Optuna's samplers keep random numbers
and counters between calls, which are lost when a process is killed. So each proposal comes from a
new sampler, seeded by (seed, n), in a study in memory that holds the earlier results; only its
answer is stored, in one transaction.
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
from ablate.search.storage import suggest
from ablate.study.definition import Study
from ablate.study.domain import Domain
from ablate.study.methods import METHODS

RANDOM = 5
"""Random trials before TPE starts, after the study's `first` ones. Optuna's default is 10; our
studies are short."""


class Proposal(NamedTuple):
    """A configuration to try."""

    params: dict[str, Value]
    memory: dict[str, Any]  # attributes of the trial that the search method reads later


def distribution(domain: Domain) -> BaseDistribution:
    """A domain as Optuna's distribution."""
    if domain.choices is not None:
        return CategoricalDistribution(domain.choices)
    if domain.whole:
        return IntDistribution(domain.low, domain.high, domain.log, domain.step or 1)  # type: ignore[arg-type]
    return FloatDistribution(domain.low, domain.high, domain.log, domain.step)  # type: ignore[arg-type]


def from_unit(domain: Domain, u: float) -> Value:
    """The domain's value at u in [0, 1): uniform u gives every value, or every interval of the same
    length, the same probability."""
    if domain.choices is not None:
        return domain.choices[int(u * len(domain.choices))]
    if domain.spacing is not None and not domain.log:
        return domain.at(int(u * domain.count()))
    low, high = float(domain.low), float(domain.high)  # type: ignore[arg-type]
    if domain.whole:  # on a log scale: each integer stands for the interval ± 0.5
        value = (low - 0.5) * ((high + 0.5) / (low - 0.5)) ** u
        return int(min(max(round(value), low), high))
    return low * (high / low) ** u if domain.log else low + u * (high - low)


def learns(study: Study) -> bool:
    """Whether proposals depend on earlier results."""
    return METHODS[study.method].learns


def sees_running(study: Study) -> bool:
    """Whether proposals depend on the configurations of trials that are running, too."""
    return METHODS[study.method].sees_running


def propose(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Proposal n, given the trials before it: those that are finished, and the running ones if the
    method sees them."""
    if n < len(study.first):
        return Proposal(dict(study.first[n]), {})
    proposal: Proposal = resolved(METHODS[study.method].propose)(study, n, history)
    return proposal


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

    index = n - len(study.first)
    sobol = Sobol(len(study.search), scramble=True, rng=np.random.default_rng(study.seed))
    if index > 0:  # fast_forward(0) overflows
        sobol.fast_forward(index)
    return _at(study, np.asarray(sobol.random(1)[0]))


def _at(study: Study, point: np.ndarray[Any, np.dtype[np.float64]]) -> Proposal:
    """The configuration at a point of the unit cube, one coordinate for each searched knob."""
    params: dict[str, Value] = {}
    for knob, u in zip(study.order(), point, strict=True):
        if study.applies(knob, {**study.fixed, **params}):
            params[knob] = from_unit(study.search[knob], float(u))
    return Proposal(params, {})


def by_tpe(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Optuna's tree-structured Parzen estimator, over all knobs together. Trials that are running
    count as bad ones, so that those in flight at the same time differ."""
    startup, running = len(study.first) + RANDOM, any(not t.state.is_finished() for t in history)
    sampler = TPESampler(
        seed=_seed(study, n), multivariate=True, n_startup_trials=startup, constant_liar=running
    )
    return _ask(study, history, sampler)


def by_gp(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Optuna's Gaussian-process optimisation."""
    sampler = GPSampler(seed=_seed(study, n), warn_independent_sampling=False)
    return _ask(study, history, sampler)


def by_cmaes(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """Optuna's CMA-ES, which itself adds the trial's number to its seed."""
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
    """What a new sampler of Optuna's suggests, given the history."""
    shadow = optuna.create_study(
        directions=[o.direction for o in study.objectives], sampler=sampler
    )
    shadow.add_trials(_usable(study, history))
    trial = shadow.ask()
    params: dict[str, Value] = {}
    for knob in study.order():
        if study.applies(knob, {**study.fixed, **params}):
            params[knob] = suggest(trial, knob, distribution(study.search[knob]))
    return Proposal(params, shadow.get_trials(deepcopy=False)[-1].system_attrs)


def _usable(study: Study, history: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The history as Optuna can rank it. With several objectives it cannot rank a pruned trial that
    keeps all constraints: such a trial counts as failed."""
    if len(study.objectives) == 1:
        return list(history)
    return [_failed(t) if t.state == TrialState.PRUNED and keeps(t) else t for t in history]


def keeps(trial: FrozenTrial) -> bool:
    """Whether a trial keeps every constraint."""
    return all(value <= 0 for value in trial.constraints.values())


def _failed(trial: FrozenTrial) -> FrozenTrial:
    failed = copy.copy(trial)
    failed.state = TrialState.FAIL
    return failed
