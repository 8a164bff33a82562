"""How much of an objective's variation each knob explains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from ablate.results import Value
from ablate.search.ledger import Entry
from ablate.study.definition import Study

BEST = 5
"""Trials that PED-ANOVA tells from the rest, at least, as Optuna advises."""

EACH = 2
"""Trials a knob that fANOVA must have, and one more; with fewer any knob explains everything."""


def importance(study: Study, entries: Sequence[Entry]) -> dict[str, dict[str, dict[str, float]]]:
    """How much of an objective's variation a knob explains: objective -> method -> knob -> share.

    Of knobs that can be told apart. Over the relative step where delta was searched: delta is
    confounded with L and N. Of rows, whose knobs vary together, without those that others of the
    row decide. Trials that were given up count with what they had by then: leaving them out would
    leave out all that is known of poor values.
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
        for method, evaluator in _evaluators(domains).items():
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


def _evaluators(found: _Observed) -> dict[str, optuna.importance.BaseImportanceEvaluator]:
    """Those that apply. fANOVA would leave out what some trials lack, and give its share to the
    rest."""
    applying: dict[str, optuna.importance.BaseImportanceEvaluator] = {}
    count = len(found.rows)
    if count >= 2 * BEST:
        applying["PED-ANOVA"] = optuna.importance.PedAnovaImportanceEvaluator(
            target_quantile=max(0.1, BEST / count)
        )
    alike = len({frozenset(params) for _, params in found.rows}) == 1
    if alike and count > EACH * len(found.kinds):
        applying["fANOVA"] = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return applying


class _Observed(NamedTuple):
    rows: list[tuple[Entry, dict[str, Value]]]  # trials with the knobs to explain them by
    kinds: dict[str, BaseDistribution]  # of each knob, as wide as it was seen


def _observed(study: Study, entries: Sequence[Entry]) -> _Observed:
    done = [e for e in entries if e.values and all(map(math.isfinite, e.values))]
    silent = _decided(study)
    rows = [
        (entry, {k: v for k, v in _told_by_r(study, entry.params).items() if k not in silent})
        for entry in done
    ]
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


def _decided(study: Study) -> set[str]:
    """Knobs that say nothing of their own: with one value, or, in rows, with values that the knobs
    before them decide."""
    silent = {knob for knob, domain in study.search.items() if len(set(domain.ends())) == 1}
    told: list[str] = []
    for knob in dict.fromkeys(knob for row in study.rows for knob in row):
        without = {tuple(row.get(k) for k in told) for row in study.rows}
        having = {tuple(row.get(k) for k in (*told, knob)) for row in study.rows}
        if len(having) > len(without):
            told.append(knob)
        else:
            silent.add(knob)
    return silent
