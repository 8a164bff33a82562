"""Pruning: when to stop a configuration that is worse than a finished one.

Sample i of seed r comes from the same random numbers in every configuration, so two configurations
are compared in pairs, on the samples that both have. Their common noise cancels, and few samples
are enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from ablate.generate.settings import Settings
from ablate.metrics.estimate import Estimate, Measured, paired_difference, pooled
from ablate.metrics.reference import Reference, measure
from ablate.metrics.registry import METRICS
from ablate.study.definition import Study

SURE = 2.5
"""Standard errors by which a configuration must be worse to be pruned. One comparison prunes a
configuration that is as good as the best once in 160 times. There are as many comparisons as rungs
and seeds, and the best is the luckiest of several, so the rate of the whole trial is somewhat
higher; such trials would hardly have changed the answer."""


class Rival(NamedTuple):
    """A finished configuration to compare with."""

    number: int
    settings: Settings
    values: Sequence[float]  # one for each objective


def choose_rival(study: Study, settings: Settings, finished: Sequence[Rival]) -> Rival | None:
    """The best finished configuration that does not cost more evaluations."""
    objective = study.pruning_objective()
    if objective is None:
        return None
    index, sign = study.objectives.index(objective), objective.sign
    costs = [o for o in study.objectives if METRICS[o.metric].known_early]
    fair = [
        rival
        for rival in finished
        if all(o.sign * (rival.settings.nfe - settings.nfe) <= 0 for o in costs)
    ]
    return min(fair, key=lambda rival: (sign * rival.values[index], rival.number), default=None)


def difference(
    mine: Mapping[int, Tensor], theirs: Mapping[int, Tensor], metric: str, reference: Reference
) -> Estimate:
    """Mine less theirs, from features by seed, in pairs over the samples that both have."""
    count = min(len(features) for seed in mine for features in (mine[seed], theirs[seed]))
    return paired_difference(
        *(
            pooled([_measure(side[seed][:count], metric, reference) for seed in mine])
            for side in (mine, theirs)
        )
    )


def _measure(features: Tensor, metric: str, reference: Reference) -> Measured:
    return measure(features.float(), reference, [metric])[metric]


def verdict(
    study: Study,
    rival: Rival,
    mine: Mapping[int, Tensor],
    theirs: Mapping[int, Tensor],
    reference: Reference,
) -> str | None:
    """Why to prune the configuration, or None."""
    objective = study.pruning_objective()
    assert objective is not None
    gap = difference(mine, theirs, objective.metric, reference)
    worse = objective.sign * gap.value
    if worse <= SURE * gap.error:
        return None
    samples = sum(len(features) for features in mine.values())
    return (
        f"after {samples} samples {objective.metric} is {abs(gap.value):.3g} ± {gap.error:.2g}"
        f" worse than that of trial {rival.number}"
    )
