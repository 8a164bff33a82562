"""How coarse a grid is for literal steps: the numbers that plans, records and reports share."""

from __future__ import annotations

from typing import NamedTuple

BAND = (0.8, 1.25)
"""Ratios of noise variance that pass: within it the standard deviation is right to some 12 %."""

REMEDY = 'use integrator = "exponential" or more levels'


class Coarseness(NamedTuple):
    """The noise of a literal run against that of its law, at the level where they differ most."""

    ratio: float  # variance of its noise over the variance in the limit of small steps
    s: float  # the level at which it arrives with this noise
    outside: int  # levels with a ratio outside the band
    levels: int  # levels that were checked
    band: tuple[float, float] = BAND

    @property
    def warns(self) -> bool:
        """Whether the grid is too coarse."""
        return self.outside > 0
