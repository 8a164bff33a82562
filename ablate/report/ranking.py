"""StudyResults -> which trials are ranked, and in which order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import wraps

from ablate.report.names import Estimate
from ablate.results import StudyResults, Trial

OF_A_RUNG = re.compile(r"(.+)_n(\d+)$")
"""Metrics that a trial of a record before 0.3 had at a rung: (metric, samples)."""


def of_one_study(
    function: Callable[[StudyResults], list[Trial]],
) -> Callable[[StudyResults], list[Trial]]:
    """The function, which remembers its answer for the results that it was last asked about: a
    report asks for its ranking at every dot of its figures."""
    last: list[tuple[StudyResults, list[Trial]]] = []

    @wraps(function)
    def remembering(results: StudyResults) -> list[Trial]:
        if not last or last[0][0] is not results:
            last[:] = [(results, function(results))]
        return list(last[0][1])

    return remembering


@of_one_study
def ranking(results: StudyResults) -> list[Trial]:
    """Complete trials with a finite first objective, best first. The one place that ranks."""
    metric = results.objectives[0].metric
    finite = [t for t in results.trials if math.isfinite(t.metrics.get(metric, math.nan))]
    return results._replace(trials=finite).ranked()


@of_one_study
def contenders(results: StudyResults) -> list[Trial]:
    """The ranking without the trials that start from training images, if that leaves any."""
    ranked = ranking(results)
    return [trial for trial in ranked if not results.leaks(trial)] or ranked


def pruned_trials(results: StudyResults) -> list[tuple[Trial, Estimate]]:
    """Pruned trials with the last value of their first objective."""
    metric = results.objectives[0].metric
    pruned = []
    for trial in results.trials:
        if trial.state == "pruned" and metric in trial.metrics:
            pruned.append((trial, Estimate(trial.metrics[metric], trial.intervals.get(metric))))
            continue
        looks = [m for name in trial.metrics if (m := OF_A_RUNG.match(name)) and m[1] == metric]
        if trial.state == "pruned" and looks:
            last = max(looks, key=lambda look: int(look[2]))[0]
            pruned.append((trial, Estimate(trial.metrics[last], trial.intervals.get(last))))
    return pruned


def front(results: StudyResults) -> list[Trial]:
    """The contenders that no other beats on one objective without losing on another."""
    goals = results.objectives
    measured = [t for t in contenders(results) if all(goal.metric in t.metrics for goal in goals)]
    costs = {t.number: tuple(g.sign * t.metrics[g.metric] for g in goals) for t in measured}

    def beaten(cost: tuple[float, ...]) -> bool:
        return any(
            other != cost and all(a <= b for a, b in zip(other, cost, strict=True))
            for other in costs.values()
        )

    return [t for t in measured if not beaten(costs[t.number])]
