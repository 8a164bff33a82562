"""The knob `cost`: network evaluations a sample, in place of the number of levels.

Samplers spend one or two evaluations a level, and some spend more. With equal `cost` they are
compared at what a sample costs. Importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablate.samplers.registry import SAMPLERS

FEWEST_LEVELS = 3
"""Of a grid: a first level, a last one, and 0."""


def levels_for(cost: int, chosen: Mapping[str, Any]) -> int:
    """The most levels that a configuration can walk for `cost` evaluations a sample."""
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
