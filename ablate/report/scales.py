"""How an `Axis` stands in Matplotlib: linear, logarithmic, or linear around zero and logarithmic
beyond."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, SymLogNorm
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator

from ablate.report.names import number
from ablate.report.shapes import Axis

WIDEST = 40
"""A logarithmic axis that spans more than this factor has a tick a decade, a short one if it spans
more than SHORT."""

SHORT = 10

CLEAR = 3
"""Numbers on the logarithmic part of an axis around zero do not touch beyond this factor."""


def set_scale(
    ax: Axes, which: Literal["x", "y"], axis: Axis, remark: str = "", *, short: bool = False
) -> None:
    """Scale, label and ticks of the x or y axis, plain numbers also where it is logarithmic.

    short: the axis has room for a few numbers alone, as beside others on a phone.
    """
    decades = SHORT if short else WIDEST
    ax.set(**{f"{which}label": axis.title + remark})
    ticks = ax.xaxis if which == "x" else ax.yaxis
    if axis.linear:
        (ax.set_xscale if which == "x" else ax.set_yscale)("symlog", linthresh=axis.linear)
        ax.autoscale(axis=which)  # margins of this scale: what was drawn before had linear ones
        ticks.set_major_locator(FixedLocator(ticks_around_zero(axis, *ticks.get_view_interval())))
        ticks.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    elif axis.log:
        ax.set(**{f"{which}scale": "log"})
        ax.autoscale(axis=which)
        low, high = ticks.get_view_interval()
        ticks.set_major_locator(LogLocator(subs=(1,) if high > decades * low else (1, 2, 5)))
        ticks.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    else:
        ticks.set_major_locator(MaxNLocator(3 if short else 5, steps=[1, 2, 5, 10]))
        return
    ticks.set_minor_formatter(FuncFormatter(lambda *_: ""))


def colours(axis: Axis, values: Sequence[float]) -> Normalize:
    """The values' places on a scale of colours."""
    low, high = min(values), max(values)
    if axis.linear:
        return SymLogNorm(axis.linear, vmin=low, vmax=high)
    return (LogNorm if axis.log else Normalize)(low, high)


def ticks_around_zero(axis: Axis, low: float, high: float) -> list[float]:
    """Zero, the ends of the linear part and powers of ten beyond, from `low` to `high`."""
    below, above = _steps(axis.linear, -low), _steps(axis.linear, high)
    return [*(-step for step in reversed(below)), *[0.0] * bool(low <= 0 <= high), *above]


def _steps(linear: float, far: float) -> list[float]:
    """The end of the linear part and powers of ten up to `far`; without the end where the first of
    these is so near that their numbers would touch."""
    steps = [linear]
    power = math.floor(math.log10(linear)) + 1
    while (step := float(f"1e{power}")) <= far:
        steps += [step] if step > 1.5 * linear else []
        power += 1
    near = len(steps) > 1 and steps[1] < CLEAR * linear
    return [step for step in steps[near:] if step <= far]
