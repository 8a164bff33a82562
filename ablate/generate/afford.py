"""Network evaluations a sample: how many levels they pay for, and what they are spent on.

Samplers spend one or two evaluations a level, and some spend more. With the knob `cost` they are
compared at what a sample costs. Importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ablate.generate.guidance_knobs import is_guided
from ablate.samplers.registry import SAMPLERS

FEWEST_LEVELS = 3
"""Of a grid: a first level, a last one, and 0."""


def levels_for(cost: int, chosen: Mapping[str, Any]) -> int:
    """The most levels that a configuration can walk for `cost` evaluations a sample."""
    cost = cost // 2 if is_guided(chosen) else cost
    if chosen.get("integrator") == "exponential":
        return cost  # one evaluation each
    sampler = SAMPLERS[str(chosen["sampler"])]

    def spent(levels: int) -> int:
        return sampler.nfe(levels, chosen.get("L") or 1, chosen.get("n") or 0, chosen)

    if spent(FEWEST_LEVELS) > cost:
        raise ValueError(f"cost = {cost}: {sampler.name} needs {spent(FEWEST_LEVELS)} at least")
    levels = FEWEST_LEVELS
    while spent(levels + 1) <= cost:
        levels += 1
    return levels


def with_levels(chosen: Mapping[str, Any]) -> Mapping[str, Any]:
    """The knobs with `levels` filled in if `cost` decides it; an error if the two contradict."""
    cost = chosen.get("cost")
    if not isinstance(cost, int) or chosen.get("sampler") not in SAMPLERS:
        return chosen  # no cost, or what the settings refuse by themselves
    levels = levels_for(cost, chosen)
    if chosen.get("levels", levels) != levels:
        raise ValueError(f"levels = {chosen['levels']} and cost = {cost}: give one")
    return {**chosen, "levels": levels}


SHARE_AT_THE_END = 6
"""One in so many evaluations of an exponential integrator is spent on noise-free steps, where D
keeps moving, and nearly as many of the lowest levels are split if they have several steps. With the
paper's L = 6 and n = 25 on CIFAR-10, one evaluation for all of these gave half the literal KID."""


class Spending(NamedTuple):
    """What an exponential integrator spends its evaluations on."""

    walk: int  # evaluations at as many levels, from the first on
    split: int  # of the lowest levels, which take two each, because D moves within their L steps
    rest: int  # evaluations in the n noise-free steps


def spend(evaluations: int, L: int, n: int) -> Spending:
    """How so many evaluations are spent on the levels and on n noise-free steps."""
    end = -(-evaluations // SHARE_AT_THE_END)
    split, rest = (end - 1 if L > 1 else 0), min(n, end)
    return Spending(evaluations - 2 * split - rest, split, rest)
