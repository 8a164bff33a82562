"""Giving a configuration up early: when it is worse than a finished one beyond its standard error.

Sample i of seed r comes from the same random numbers in every configuration, so the two are
compared in pairs, on the samples that both have: what they share cancels, and few tell a lot.
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
"""Standard errors by which it must be worse. One look at one as good as the best loses it once in
160 times; there are as many looks as rungs and seeds, and the best is a lucky one, so somewhat more
are lost in all: they would hardly have changed the answer."""


class Rival(NamedTuple):
    """A finished configuration."""

    number: int
    settings: Settings
    values: Sequence[float]  # one for each objective


def choose_rival(study: Study, settings: Settings, finished: Sequence[Rival]) -> Rival | None:
    """The best of those that are no dearer."""
    objective = study.pruning_objective()
    if objective is None:
        return None
    place, sign = study.objectives.index(objective), objective.sign
    costs = [o for o in study.objectives if METRICS[o.metric].known_early]
    fair = [
        rival
        for rival in finished
        if all(o.sign * (rival.settings.nfe - settings.nfe) <= 0 for o in costs)
    ]
    return min(fair, key=lambda rival: (sign * rival.values[place], rival.number), default=None)


def difference(
    mine: Mapping[int, Tensor], theirs: Mapping[int, Tensor], metric: str, reference: Reference
) -> Estimate:
    """Mine less theirs, of features by seed, on the samples that both have, in pairs."""
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
    """Why to give the configuration up, or None."""
    objective = study.pruning_objective()
    assert objective is not None
    found = difference(mine, theirs, objective.metric, reference)
    worse = objective.sign * found.value
    if worse <= SURE * found.error:
        return None
    samples = sum(len(features) for features in mine.values())
    return (
        f"after {samples} samples {objective.metric} is {abs(found.value):.3g} ± {found.error:.2g}"
        f" worse than that of trial {rival.number}"
    )
