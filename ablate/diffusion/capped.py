"""Geometric grids whose steps are capped: how many even steps they begin with.

Plain floats, without torch, so that a study file can be checked without importing it.
"""

from __future__ import annotations

import math


def check_cap(cap: float, s_min: float) -> None:
    """Refuse a cap that the last step, from s_min to 0, exceeds."""
    if s_min**2 > cap:
        raise ValueError(
            f"cap = {cap:g} is below what the last step removes, s_min² = {s_min**2:g}"
        )


def even_steps(highest: float, lowest: float, steps: int, cap: float) -> int:
    """How many steps of `cap` to take before a geometric progression needs none larger.

    highest, lowest: the variances to begin and end with; steps: how many there are in all.
    """
    for taken in range(steps):
        left = highest - taken * cap
        if left <= lowest:
            break
        removed = left * (1 - (lowest / left) ** (1 / (steps - taken)))  # by its first step
        if removed <= cap:
            return taken
    raise ValueError(
        f"cap = {cap:g}: {steps} steps of it do not take the variance from {highest:.4g} to"
        f" {lowest:.4g}; {math.ceil((highest - lowest) / cap) + 2} levels would"
    )
