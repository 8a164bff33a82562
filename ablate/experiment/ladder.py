"""The effects of a ladder's steps, from the features of its trials.

All trials share the noise of a seed, so an effect is a paired difference of two trials, and an
interaction a paired contrast of four. Their standard errors come from the influence of every image;
with several training seeds their intervals hold training, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ablate.experiment.prepare import Setup
from ablate.generate.settings import Settings
from ablate.metrics.estimate import Measured
from ablate.metrics.over_seeds import contrast_over_seeds
from ablate.metrics.reference import measure
from ablate.metrics.registry import METRICS
from ablate.search import Entry, searched
from ablate.study.definition import Study
from ablate.study.ladder import Ladder, Taken, ladder, name_of, row_of
from ablate.study.methods import METHODS

Features = Callable[[int, int], Tensor]
"""(trial, seed) -> the features of its samples, [N, f]."""

Effect = dict[str, dict[str, Any]] | None
"""Metric -> value, error, low, high, excludes_zero; None where a trial has no result."""

NO_RESULT = {"pruned": "diverged", "failed": "failed", "running": "not finished"}
"""State of a trial in the search -> why it is left out. A ladder prunes only what diverged."""


class Trials(NamedTuple):
    """The trials of a ladder with a result."""

    numbers: Mapping[Taken, int]  # configuration -> its trial; several may be the same one
    measured: Mapping[int, Mapping[str, list[Measured]]]  # trial -> metric -> its value by seed
    training_seeds: Sequence[int | None]  # of each seed

    def effect(self, *terms: tuple[int, Taken]) -> Effect:
        """The sum of weight times metric over configurations, for every metric."""
        if any(taken not in self.numbers for _, taken in terms):
            return None
        weights: Counter[int] = Counter()  # so that a trial that enters twice cancels exactly
        for weight, taken in terms:
            weights[self.numbers[taken]] += weight
        effect: dict[str, dict[str, Any]] = {}
        for name in self.measured[next(iter(weights))]:
            parts = [(w, self.measured[number][name]) for number, w in weights.items() if w]
            found = contrast_over_seeds(parts, self.training_seeds)
            if not math.isfinite(found.value):
                return None
            low, high = found.value - found.half, found.value + found.half
            effect[name] = {"value": found.value, "error": found.error, "low": low, "high": high}
            effect[name]["excludes_zero"] = low > 0 or high < 0
        return effect


def ladder_document(
    setup: Setup, record_features: Features, entries: Sequence[Entry]
) -> dict[str, Any] | None:
    """A study's ladder with the effect of every step, as JSON; None for other methods.

    An effect is a metric with the step less the metric without it. Change: after the steps before
    it. Add-one: from the base. Leave-one-out: beside all other steps. Interaction: leave-one-out
    less add-one.
    """
    study = setup.study
    if not METHODS[study.method].ladder:
        return None
    structure = ladder(len(study.steps), study.combinations)
    found = _found(study, structure, entries)
    done = {taken: e.number for taken, e in found.items() if e and e.state == "complete"}
    trained = [study.training_seed(seed) for seed in study.seeds]
    trials = Trials(done, _measured(setup, record_features, set(done.values())), trained)
    climbed = structure.cumulative if "cumulative" in study.combinations else [()]
    left_out = {
        taken if entry is None else entry.number: {
            "configuration": name_of(taken, study.steps),
            "reason": NO_RESULT[entry.state] if entry else "not run",
        }
        for taken, entry in reversed(found.items())
        if taken not in done
    }
    return {
        "metrics": _metrics(study),
        "combinations": list(study.combinations),
        "cumulative": [_rung(study, trials, taken) for taken in climbed],
        "steps": [_step(study, structure, trials, index) for index in range(len(study.steps))],
        "left_out": list(reversed(left_out.values())),
    }


def _found(study: Study, structure: Ladder, entries: Sequence[Entry]) -> dict[Taken, Entry | None]:
    """The trial of every configuration; different steps may make the same configuration."""
    tried = [(_settled(study, entry.params), entry) for entry in searched(entries)]
    found: dict[Taken, Entry | None] = {}
    for taken in structure.distinct():
        wanted = _settled(study, row_of(study, taken))
        found[taken] = next((entry for settled, entry in tried if settled == wanted), None)
    return found


def _settled(study: Study, params: Mapping[str, Any]) -> dict[str, Any]:
    """All knobs of a configuration, defaults filled in."""
    return study.settings(params).knobs()


def _metrics(study: Study) -> list[str]:
    """The first objective, or KID if that is not measured on features; then FID."""
    first = study.objectives[0].metric
    return list(dict.fromkeys([first if METRICS[first].measure else "kid", "fid"]))


def _measured(
    setup: Setup, record_features: Features, numbers: set[int]
) -> dict[int, dict[str, list[Measured]]]:
    """Trial -> metric -> its value by seed, with the influence of every image."""
    names, measured = _metrics(setup.study), {}
    for number in sorted(numbers):
        cells = [
            measure(record_features(number, seed).float(), setup.reference, names)
            for seed in setup.study.seeds
        ]
        measured[number] = {name: [cell[name] for cell in cells] for name in names}
    return measured


def _rung(study: Study, trials: Trials, taken: Taken) -> dict[str, Any]:
    """A configuration of the cumulative ladder, and what its last step changed."""
    row, before = row_of(study, taken), row_of(study, taken[:-1]) if taken else {}
    settings, step = study.settings(row), study.steps[taken[-1]] if taken else None
    return {
        "name": step.name if step else "base",
        "changes": {knob: value for knob, value in row.items() if before.get(knob) != value},
        "trial": trials.numbers.get(taken),
        "nfe": settings.nfe,
        "literal_nfe": _literal_nfe(settings),
        "change": trials.effect((1, taken), (-1, taken[:-1])) if step else None,
    }


def _literal_nfe(settings: Settings) -> int:
    """Evaluations a sample of the literal run that an exponential integrator stands for."""
    N = settings.paper_levels
    if not settings.exponential or N is None:
        return settings.nfe
    return settings.kind.nfe(N, settings.L or 1, settings.n or 0, settings.own_knobs)


def _step(study: Study, structure: Ladder, trials: Trials, index: int) -> dict[str, Any]:
    """The effects of a step alone and beside all others, and their difference."""
    base, top = structure.cumulative[0], structure.cumulative[-1]
    alone, without = structure.add_one[index], structure.leave_one_out[index]

    def same(a: Taken, b: Taken) -> bool:
        return _settled(study, row_of(study, a)) == _settled(study, row_of(study, b))

    return {
        "name": study.steps[index].name,
        "trial": trials.numbers.get(alone),  # of the step alone
        "changes": dict(study.steps[index].knobs),
        "add_one": trials.effect((1, alone), (-1, base)),
        "add_one_is_base": same(alone, base),
        "leave_one_out": trials.effect((1, top), (-1, without)),
        "leave_one_out_is_top": same(without, top),
        "interaction": trials.effect((1, top), (-1, without), (-1, alone), (1, base)),
    }
