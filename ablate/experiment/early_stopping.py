"""Pruning: when to stop a configuration that is worse than a finished one.

Sample i of seed r comes from the same random numbers in every configuration, so two configurations
are compared in pairs, on the samples that both have. Their common noise cancels, and few samples
are enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from torch import Tensor

from ablate.generate.settings import Settings
from ablate.metrics.estimate import Estimate, Measured, paired_difference, pooled
from ablate.metrics.reference import Reference, measure
from ablate.metrics.registry import METRICS
from ablate.study.definition import Study

FALSE_ALARMS = 0.01
"""Chance that a configuration as good as all finished ones is pruned. It is shared out among the
comparisons that can prune it, of every look (rungs and seeds) with every finished configuration:
the best of these is the luckiest, and a limit for one comparison would prune far more."""

TOP = 3
"""A configuration among so many best ones so far is never pruned."""

ONE_IN = 8
"""One in so many trials, chosen at random, is never pruned: it shows what pruning overlooks."""

MOST_PRUNED = 2 / 3
"""Largest share of trials that may be pruned. The rest is the ablation that a reader sees."""


class Rival(NamedTuple):
    """A finished configuration to compare with."""

    number: int
    settings: Settings
    values: Sequence[float]  # one for each objective


class Field(NamedTuple):
    """The finished configurations that a new one is compared with."""

    best: Rival
    among: int  # how many finished configurations `best` is the best of
    bar: float | None  # value of the last of the TOP best; None while there are fewer


def spared(study: Study, place: int, pruned: int, finished: int) -> bool:
    """Whether a trial is run to its end, whatever its samples are like.

    place: how many trials of the search were proposed before it; pruned, finished: trials so far
    that were pruned, and that are not running any more.
    """
    digest = hashlib.blake2b(f"spare/{study.seed}/{place}".encode(), digest_size=8).digest()
    chosen = int.from_bytes(digest, "big") % ONE_IN == 0
    return chosen or pruned + 1 > MOST_PRUNED * (finished + 1)


def choose_field(study: Study, settings: Settings, finished: Sequence[Rival]) -> Field | None:
    """The finished configurations that do not cost more evaluations."""
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
    if not fair:
        return None
    fair.sort(key=lambda rival: (sign * rival.values[index], rival.number))
    bar = fair[TOP - 1].values[index] if len(fair) >= TOP else None
    return Field(fair[0], len(fair), bar)


def difference(
    mine: Mapping[int, Tensor], theirs: Mapping[int, Tensor], metric: str, reference: Reference
) -> Estimate:
    """Mine less theirs, from features by seed, in pairs over the samples that both have."""
    return paired_difference(*_pair(mine, theirs, metric, reference))


def _pair(
    mine: Mapping[int, Tensor], theirs: Mapping[int, Tensor], metric: str, reference: Reference
) -> tuple[Measured, Measured]:
    """Both, over all seeds of mine and the samples that both have."""
    count = min(len(features) for seed in mine for features in (mine[seed], theirs[seed]))
    return (
        pooled([_measure(mine[seed][:count], metric, reference) for seed in mine]),
        pooled([_measure(theirs[seed][:count], metric, reference) for seed in mine]),
    )


def _measure(features: Tensor, metric: str, reference: Reference) -> Measured:
    return measure(features.float(), reference, [metric])[metric]


def limit(study: Study, rivals: int) -> float:
    """Standard errors by which a configuration must be worse than the best of so many."""
    looks = len(study.rungs) + len(study.seeds) - 1
    return NormalDist().inv_cdf(1 - FALSE_ALARMS / max(1, looks * rivals))


def verdict(
    study: Study,
    field: Field,
    mine: Mapping[int, Tensor],
    theirs: Mapping[int, Tensor],
    reference: Reference,
) -> str | None:
    """Why to prune the configuration, or None. theirs: features of the best of the field."""
    objective = study.pruning_objective()
    assert objective is not None
    own, best = _pair(mine, theirs, objective.metric, reference)
    gap = paired_difference(own, best)
    among_the_best = field.bar is None or (
        METRICS[objective.metric].steady  # else fewer samples have other values
        and objective.sign * (own.value - field.bar) <= 0
    )
    if among_the_best or objective.sign * gap.value <= limit(study, field.among) * gap.error:
        return None
    samples = sum(len(features) for features in mine.values())
    return (
        f"after {samples} samples {objective.metric} is {abs(gap.value):.3g} ± {gap.error:.2g}"
        f" worse than that of trial {field.best.number}"
    )
