"""How an `Axis` stands in Matplotlib: linear, logarithmic, or linear around zero and logarithmic
beyond."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, SymLogNorm
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator

from ablate.report.names import number
from ablate.report.shapes import Axis


def set_scale(ax: Axes, which: str, axis: Axis, remark: str = "") -> None:
    """Scale, label and ticks of the x or y axis, plain numbers also where it is logarithmic."""
    ax.set(**{f"{which}label": axis.title + remark})
    ticks = ax.xaxis if which == "x" else ax.yaxis
    if axis.linear:
        (ax.set_xscale if which == "x" else ax.set_yscale)("symlog", linthresh=axis.linear)
        ticks.set_major_locator(FixedLocator(ticks_around_zero(axis, *ticks.get_view_interval())))
        ticks.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    elif axis.log:
        ax.set(**{f"{which}scale": "log"})
        low, high = ticks.get_view_interval()
        ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 40 * low else (1,)))
        ticks.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    else:
        ticks.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
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
    steps = [axis.linear]
    power = math.floor(math.log10(axis.linear)) + 1
    while (step := float(f"1e{power}")) <= max(high, -low):
        steps += [step] if step > 1.5 * axis.linear else []
        power += 1
    return [each for each in (*(-s for s in reversed(steps)), 0.0, *steps) if low <= each <= high]
