"""Giving a configuration up early: when it is worse than a finished one beyond its standard error.

Sample i of seed r comes from the same random numbers in every configuration, so the two are
compared in pairs, on the samples that both have: what they share cancels, and few tell a lot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from ablate.metrics.estimate import Estimate, Measured, paired_difference, pooled
from ablate.metrics.reference import METRICS, Reference
from ablate.settings import Settings
from ablate.spec import Objective, Study

SURE = 2.5
"""Standard errors by which it must be worse. One look at one as good as the best loses it once in
160 times; there are as many looks as rungs and seeds, and the best is a lucky one, so somewhat more
are lost in all: they would hardly have changed the answer."""

JUDGED = ("kid", "fid", "precision", "density")
"""Metrics whose error tells of the samples; that of recall and coverage takes these as given."""

KNOWN = ("nfe",)
"""Objectives that a configuration has before it is drawn."""


class Rival(NamedTuple):
    """A finished configuration."""

    number: int
    settings: Settings
    values: Sequence[float]  # one for each objective


def measured_objective(study: Study) -> Objective | None:
    """What configurations are compared by, or None where that cannot be known early."""
    found = [o for o in study.objectives if o.metric in JUDGED]
    others = [o for o in study.objectives if o.metric not in (*JUDGED, *KNOWN)]
    return found[0] if len(found) == 1 and not others else None


def choose_rival(study: Study, settings: Settings, finished: Sequence[Rival]) -> Rival | None:
    """The best of those that are no dearer."""
    objective = measured_objective(study)
    if objective is None:
        return None
    place, sign = study.objectives.index(objective), _sign(objective)
    costs = [o for o in study.objectives if o.metric in KNOWN]
    fair = [
        rival
        for rival in finished
        if all(_sign(o) * (rival.settings.nfe - settings.nfe) <= 0 for o in costs)
    ]
    return min(fair, key=lambda rival: (sign * rival.values[place], rival.number), default=None)


def _sign(objective: Objective) -> int:
    return -1 if objective.direction == "maximize" else 1


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
    family = metric if metric in METRICS else "coverage"
    return METRICS[family](features.float(), reference)[metric]


def verdict(
    study: Study,
    rival: Rival,
    mine: Mapping[int, Tensor],
    theirs: Mapping[int, Tensor],
    reference: Reference,
) -> str | None:
    """Why to give the configuration up, or None."""
    objective = measured_objective(study)
    assert objective is not None
    found = difference(mine, theirs, objective.metric, reference)
    worse = _sign(objective) * found.value
    if worse <= SURE * found.error:
        return None
    samples = sum(len(features) for features in mine.values())
    return (
        f"after {samples} samples {objective.metric} is {abs(found.value):.3g} ± {found.error:.2g}"
        f" worse than that of trial {rival.number}"
    )
