"""Proposals and their ledger: the one module that knows Optuna.

Proposal n is a function of (study, n, earlier results) and of nothing else. Optuna's samplers keep
random numbers and counters between calls, which a kill would lose; so each proposal is asked of a
fresh sampler, seeded by (seed, n), in a study in memory that holds the earlier results, and only
the answer is stored: whole, in one transaction.
"""

from __future__ import annotations

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

optuna.logging.set_verbosity(optuna.logging.ERROR)


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
    if (step := domain.spacing) is not None and not domain.log:
        return domain.low + step * int(u * domain.count())  # type: ignore[operator]
    low, high = float(domain.low), float(domain.high)  # type: ignore[arg-type]
    if domain.whole:  # on a log scale: each number with half the way to its neighbours
        value = (low - 0.5) * ((high + 0.5) / (low - 0.5)) ** u
        return int(min(max(round(value), low), high))
    return low * (high / low) ** u if domain.log else low + u * (high - low)


def propose(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """The n-th proposal, given the finished trials before it."""
    if study.method == "grid":
        return Proposal(next(itertools.islice(study.grid(), n, None)), {})
    if study.method in ("random", "qmc"):
        point = _unit_point(study, n)
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
    shadow.add_trials(history)
    trial = shadow.ask()
    params: dict[str, Value] = {}
    for knob in study.order():
        if study.applies(knob, {**study.fixed, **params}):
            params[knob] = trial._suggest(knob, distribution(study.search[knob]))
    return Proposal(params, shadow.get_trials(deepcopy=False)[-1].system_attrs)


def _sampler(study: Study, n: int) -> BaseSampler:
    digest = hashlib.blake2b(f"search/{study.seed}/{n}".encode(), digest_size=4).digest()
    seed = int.from_bytes(digest, "big")
    if study.method == "tpe":
        return TPESampler(seed=seed, multivariate=True)
    if study.method == "gp":
        return GPSampler(seed=seed, warn_independent_sampling=False)
    return CmaEsSampler(  # adds the trial's number to its seed by itself
        seed=study.seed,
        independent_sampler=RandomSampler(seed=seed),
        warn_independent_sampling=False,
    )


class Entry(NamedTuple):
    number: int
    params: dict[str, Value]
    running: bool
    failed: bool = False


class Ledger:
    """The study's trials in Optuna's storage: what was proposed and what came of it."""

    def __init__(self, url: str, key: str, study: Study) -> None:
        self._spec = study
        self._study = optuna.create_study(
            storage=url,
            study_name=key,
            directions=[o.direction for o in study.objectives],
            sampler=RandomSampler(),  # never asked
            load_if_exists=True,
        )

    def entries(self) -> list[Entry]:
        trials = self._study.get_trials(deepcopy=False)
        return [
            Entry(t.number, t.params, t.state == TrialState.RUNNING, t.state == TrialState.FAIL)
            for t in trials
        ]

    def best(self) -> float | None:
        """The best value of the first objective so far."""
        done = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        values = [trial.values[0] for trial in done]
        better = min if self._spec.objectives[0].direction == "minimize" else max
        return better(values) if values else None

    def claim_next(self) -> Entry:
        """Propose the next trial and write it down as running."""
        history = [t for t in self._study.get_trials(deepcopy=False) if t.state.is_finished()]
        number = len(self._study.get_trials(deepcopy=False))
        proposal = propose(self._spec, number, history)
        self._study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.RUNNING,
                params=proposal.params,
                distributions={k: distribution(self._spec.search[k]) for k in proposal.params},
                system_attrs=proposal.memory,
            )
        )
        return Entry(number, proposal.params, True)

    def complete(self, number: int, values: Sequence[float]) -> None:
        self._study.tell(number, list(values), state=TrialState.COMPLETE)

    def give_up(self, number: int, *, failed: bool) -> None:
        """Diverged (a result: search methods learn to keep away) or failed (no result)."""
        self._study.tell(number, state=TrialState.FAIL if failed else TrialState.PRUNED)
