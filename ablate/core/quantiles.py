"""Quantiles of 95 % intervals, so that reading results needs no scipy."""

from __future__ import annotations

Z95 = 1.959964
"""Half-width of a 95 % interval in standard errors, for a normal law."""

STUDENT_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def student_975(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with this many degrees of freedom, at least 1."""
    if freedom <= len(STUDENT_975):
        return STUDENT_975[freedom - 1]
    return 1.96 + 2.5 / freedom
