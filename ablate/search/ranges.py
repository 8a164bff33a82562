"""Places in a range of numbers, and steps from one value of it to another."""

from __future__ import annotations

import math

from ablate.study.domain import Domain

DIGITS = 6
"""Digits of a value, counted from the size of the range: 0.8, not 0.8000000000000002."""


def share_of(domain: Domain, value: float) -> float:
    """Where a value lies in a range: 0 at its low end, 1 at its high end."""
    low, high = float(domain.low), float(domain.high)  # type: ignore[arg-type]
    if domain.log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def beside(domain: Domain, value: float, share: float) -> int | float:
    """The value that lies a share of the range away from another, at least one spacing; at the end
    of the range that end."""
    low, high = float(domain.low), float(domain.high)  # type: ignore[arg-type]
    there = value * (high / low) ** share if domain.log else value + share * (high - low)
    if domain.spacing is not None:
        one = math.copysign(domain.spacing, share)
        there = max(there, value + one) if share > 0 else min(there, value + one)
    return nearest(domain, there)


def nearest(domain: Domain, value: float) -> int | float:
    """The nearest value of a range."""
    low, high = domain.low, domain.high
    assert low is not None
    assert high is not None
    if domain.spacing is not None:
        place = round((value - low) / domain.spacing)
        return domain.at(min(max(place, 0), domain.count() - 1))
    size = abs(value) if domain.log else high - low
    short = round(value, DIGITS - 1 - math.floor(math.log10(size)))
    return min(max(short, float(low)), float(high))
