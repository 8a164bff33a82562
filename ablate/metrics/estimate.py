"""A number with its standard error."""

from __future__ import annotations

from typing import NamedTuple

Z95 = 1.959964
"""Of a normal law's 95 %."""


class Estimate(NamedTuple):
    value: float
    error: float  # standard error

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true value lies, 95 times of 100."""
        return self.value - Z95 * self.error, self.value + Z95 * self.error
