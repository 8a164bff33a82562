"""Holm's correction for several comparisons."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: below alpha, at most alpha is the chance of any false finding."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = least
    return adjusted
