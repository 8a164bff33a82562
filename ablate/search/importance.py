"""The importance of knobs: how much of an objective's variation each explains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from ablate.results import Value
from ablate.search.entries import Entry, searched
from ablate.search.fanova import variance_shares
from ablate.study.definition import Study

BEST = 5
"""Fewest trials that PED-ANOVA counts as the best ones, as Optuna advises."""

EACH = 2
"""Trials that fANOVA needs for each knob, plus one; with fewer any knob explains everything."""


def importance(study: Study, entries: Sequence[Entry]) -> dict[str, dict[str, dict[str, float]]]:
    """How much of an objective's variation a knob explains: objective -> method -> knob -> share.

    Beside fANOVA's stand its shares of the whole variance, of knobs and of pairs, with errors.
    Only knobs whose effects can be separated have a share. Where delta was searched, the relative
    step r takes its place: delta is confounded with L and N. In rows, whose knobs vary together,
    knobs that other knobs of the row determine are left out. Pruned trials count with the value of
    the samples they have, without which little would be known of poor values, unless that value
    depends on the number of samples, as FID does.
    """
    shadow = optuna.create_study(directions=[o.direction for o in study.objectives])
    observed = _observed(study, entries)
    for entry, params in observed.rows:
        shadow.add_trial(
            optuna.trial.create_trial(
                params=params,
                distributions={knob: observed.distributions[knob] for knob in params},
                values=list(entry.values),
            )
        )
    by_objective: dict[str, dict[str, dict[str, float]]] = {}
    for index, objective in enumerate(study.objectives):
        sign = 1 if objective.direction == "minimize" else -1  # PED-ANOVA explains low values
        for method, evaluator in _evaluators(observed).items():
            with suppress(ValueError, RuntimeError), warnings.catch_warnings():  # too few trials
                warnings.simplefilter("ignore")
                shares = optuna.importance.get_param_importances(
                    shadow,
                    evaluator=evaluator,
                    target=lambda trial: sign * float(trial.values[index]),  # noqa: B023
                )
                usable = {knob: float(share) for knob, share in shares.items()}
                if usable and all(math.isfinite(share) for share in usable.values()):
                    methods = by_objective.setdefault(objective.metric, {})
                    methods[method] = usable
                    if isinstance(evaluator, optuna.importance.FanovaImportanceEvaluator):
                        methods |= variance_shares(evaluator, _features(shadow), len(observed.rows))
    return by_objective


def _features(shadow: optuna.Study) -> list[str]:
    """The knobs in the order of fANOVA's features: those of all trials, without constant ones."""
    space = optuna.search_space.intersection_search_space(shadow.get_trials(deepcopy=False))
    return [knob for knob, distribution in sorted(space.items()) if not distribution.single()]


def _evaluators(observed: _Observed) -> dict[str, optuna.importance.BaseImportanceEvaluator]:
    """The methods that apply. fANOVA drops knobs that some trials lack and gives their share to the
    others, so it needs trials that all have the same knobs."""
    applying: dict[str, optuna.importance.BaseImportanceEvaluator] = {}
    count = len(observed.rows)
    if count >= 2 * BEST:
        applying["PED-ANOVA"] = optuna.importance.PedAnovaImportanceEvaluator(
            target_quantile=max(0.1, BEST / count)
        )
    alike = len({frozenset(params) for _, params in observed.rows}) == 1
    if alike and count > EACH * len(observed.distributions):
        applying["fANOVA"] = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return applying


class _Observed(NamedTuple):
    """The finished trials, as Optuna's evaluators take them."""

    rows: list[tuple[Entry, dict[str, Value]]]  # trials, with the knobs to explain
    distributions: dict[str, BaseDistribution]  # of each knob, over the values that occur


def _observed(study: Study, entries: Sequence[Entry]) -> _Observed:
    steady = study.is_steady()
    done = [
        entry
        for entry in searched(entries)
        if (entry.state == "complete" or steady)
        and entry.values
        and all(map(math.isfinite, entry.values))
    ]
    determined = _determined(study)
    rows = [
        (
            entry,
            {
                k: v
                for k, v in _by_relative_step(study, entry.params).items()
                if k not in determined
            },
        )
        for entry in done
    ]
    seen: dict[str, list[Value]] = {}
    for _, params in rows:
        for knob, value in params.items():
            seen.setdefault(knob, []).append(value)
    distributions: dict[str, BaseDistribution] = {}
    for knob, values in seen.items():
        numbers = [value for value in values if not isinstance(value, str)]
        if len(numbers) < len(values) or len(set(values)) == 1:
            distributions[knob] = CategoricalDistribution(sorted(set(values), key=str))
        else:
            log = knob in study.search and study.search[knob].log
            distributions[knob] = FloatDistribution(min(numbers), max(numbers), log=log)
    return _Observed(rows, distributions)


def _by_relative_step(study: Study, params: Mapping[str, Value]) -> dict[str, Value]:
    """The knobs with the relative step r in place of delta."""
    knobs = dict(params)
    if knobs.pop("delta", None) is not None:
        knobs["r"] = study.settings(params).relative_step
    return knobs


def _determined(study: Study) -> set[str]:
    """Knobs without an effect of their own: those with one value and, in rows, those whose values
    the knobs before them determine."""
    determined = {knob for knob, domain in study.search.items() if len(set(domain.ends())) == 1}
    free: list[str] = []
    for knob in dict.fromkeys(knob for row in study.rows for knob in row):
        without = {tuple(row.get(k) for k in free) for row in study.rows}
        having = {tuple(row.get(k) for k in (*free, knob)) for row in study.rows}
        if len(having) > len(without):
            free.append(knob)
        else:
            determined.add(knob)
    return determined
