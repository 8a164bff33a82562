"""Geometric grids with a cap on the variance of a step: how many even steps they begin with.

Plain floats, without torch, so that a study file can be checked without importing it.
"""

from __future__ import annotations

import math


def check_cap(cap: float, s_min: float) -> None:
    """Raise an error if the last step, from s_min to 0, removes more variance than the cap."""
    if s_min**2 > cap:
        raise ValueError(
            f"cap = {cap:g} is below what the last step removes, s_min² = {s_min**2:g}"
        )


def even_steps(highest: float, lowest: float, steps: int, cap: float) -> int:
    """The number of steps of `cap` after which no step of a geometric progression is larger.

    highest, lowest: the first and the last variance; steps: the number of steps in all.
    """
    for taken in range(steps):
        left = highest - taken * cap
        if left <= lowest:
            break
        removed = left * (
            1 - (lowest / left) ** (1 / (steps - taken))
        )  # by the progression's first step
        if removed <= cap:
            return taken
    raise ValueError(
        f"cap = {cap:g}: {steps} steps of it do not take the variance from {highest:.4g} to"
        f" {lowest:.4g}; {math.ceil((highest - lowest) / cap) + 2} levels would"
    )
