"""Proposals and their ledger: the one module that knows Optuna.

Proposal n is a function of (study, n, earlier results) and of nothing else. Optuna's samplers keep
random numbers and counters between calls, which a kill would lose; so each proposal is asked of a
fresh sampler, seeded by (seed, n), in a study in memory that holds the earlier results, and only
the answer is stored: whole, in one transaction.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from ablate.database import driven, options, patiently, set_up
from ablate.record import Value
from ablate.space import Domain
from ablate.spec import Study

optuna.logging.set_verbosity(optuna.logging.ERROR)


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
    return [_failed(t) if t.state == TrialState.PRUNED and _keeps(t) else t for t in history]


def _keeps(trial: FrozenTrial) -> bool:
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


class Entry(NamedTuple):
    """A trial as the search knows it."""

    number: int
    params: dict[str, Value]
    state: str  # running, complete, pruned or failed
    values: tuple[float, ...] = ()  # of the objectives, if complete
    feasible: bool = True  # within all constraints
    evaluations: int = 0  # of the network, for single images, if it was not completed

    @property
    def running(self) -> bool:
        return self.state == "running"


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
        self._seen: list[FrozenTrial] = []  # at the last look
        self._over: dict[int, Entry] = {}  # trials that are finished stay as they are

    def _open(self, url: str, key: str) -> optuna.Study:
        return optuna.create_study(
            storage=optuna.storages.RDBStorage(url, engine_kwargs=options(url)),
            study_name=key,
            directions=[o.direction for o in self._spec.objectives],
            sampler=RandomSampler(),  # never asked
            load_if_exists=True,
        )

    def entries(self) -> list[Entry]:
        """All trials by number, as they are now."""
        self._seen = patiently(lambda: self._study.get_trials(deepcopy=False))
        return [self._over.get(trial.number) or self._read(trial) for trial in self._seen]

    def _read(self, trial: FrozenTrial) -> Entry:
        entry = _entry(trial)
        if not entry.running:
            self._over[trial.number] = entry
        return entry

    def is_running(self, number: int) -> bool:
        trial = self._find(number)
        return not patiently(lambda: self._storage.get_trial(trial)).state.is_finished()

    def propose_next(self, entries: Sequence[Entry]) -> Entry:
        """Write the trial that follows on `entries`, this ledger's, down as running. For one worker
        at a time, from reading the entries on."""
        known = len(entries)
        history = [trial for trial in self._seen[:known] if trial.state.is_finished()]
        proposal = propose(self._spec, known, history)
        attempts = itertools.count()

        def add() -> None:
            if next(attempts) and len(self._study.get_trials(deepcopy=False)) > known:
                return  # written before the answer got lost
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=TrialState.RUNNING,
                    params=proposal.params,
                    distributions={k: distribution(self._spec.domain(k)) for k in proposal.params},
                    system_attrs=proposal.memory,
                )
            )

        patiently(add)
        return Entry(known, proposal.params, "running")

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
    values = tuple(trial.values) if trial.state == TrialState.COMPLETE else ()
    spent = int(trial.user_attrs.get(SPENT, 0))
    return Entry(trial.number, trial.params, STATES[trial.state], values, _keeps(trial), spent)


def importance(study: Study, entries: Sequence[Entry]) -> dict[str, dict[str, dict[str, float]]]:
    """How much of an objective's variation a knob explains: objective -> method -> knob -> share.

    Over the relative step where delta was searched: delta is confounded with L and N.
    """
    shadow = optuna.create_study(directions=[o.direction for o in study.objectives])
    domains = _observed(study, entries)
    for entry, params in domains.rows:
        shadow.add_trial(
            optuna.trial.create_trial(
                params=params,
                distributions={knob: domains.kinds[knob] for knob in params},
                values=list(entry.values),
            )
        )
    found: dict[str, dict[str, dict[str, float]]] = {}
    for index, objective in enumerate(study.objectives):
        sign = 1 if objective.direction == "minimize" else -1  # PED-ANOVA asks what makes it low
        for method, evaluator in _evaluators().items():
            with suppress(ValueError, RuntimeError), warnings.catch_warnings():  # too few trials
                warnings.simplefilter("ignore")
                shares = optuna.importance.get_param_importances(
                    shadow,
                    evaluator=evaluator,
                    target=lambda trial: sign * float(trial.values[index]),  # noqa: B023
                )
                usable = {knob: float(share) for knob, share in shares.items()}
                if usable and all(math.isfinite(share) for share in usable.values()):
                    found.setdefault(objective.metric, {})[method] = usable
    return found


def _evaluators() -> dict[str, optuna.importance.BaseImportanceEvaluator]:
    return {
        "PED-ANOVA": optuna.importance.PedAnovaImportanceEvaluator(),
        "fANOVA": optuna.importance.FanovaImportanceEvaluator(seed=0),
    }


class _Observed(NamedTuple):
    rows: list[tuple[Entry, dict[str, Value]]]  # complete trials with the knobs to explain them by
    kinds: dict[str, BaseDistribution]  # of each knob, as wide as it was seen


def _observed(study: Study, entries: Sequence[Entry]) -> _Observed:
    done = [entry for entry in entries if entry.state == "complete"]
    rows = [(entry, _told_by_r(study, entry.params)) for entry in done]
    seen: dict[str, list[Value]] = {}
    for _, params in rows:
        for knob, value in params.items():
            seen.setdefault(knob, []).append(value)
    kinds: dict[str, BaseDistribution] = {}
    for knob, values in seen.items():
        numbers = [value for value in values if not isinstance(value, str)]
        if len(numbers) < len(values) or len(set(values)) == 1:
            kinds[knob] = CategoricalDistribution(sorted(set(values), key=str))
        else:
            kinds[knob] = FloatDistribution(min(numbers), max(numbers))
    return _Observed(rows, kinds)


def _told_by_r(study: Study, params: Mapping[str, Value]) -> dict[str, Value]:
    told = dict(params)
    if told.pop("delta", None) is not None:
        told["r"] = study.settings(params).relative_step
    return told
