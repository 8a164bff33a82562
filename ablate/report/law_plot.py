"""The map of annealing and step -> a Matplotlib figure."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from ablate.report.look import ACCENT, INK, is_narrow, width
from ablate.report.names import number
from ablate.report.scales import colours, ticks_around_zero
from ablate.report.shapes import LawMap

COLOURS = "viridis"
"""Rises evenly in brightness: it reads the same in grey and to the colour-blind."""

SPAN = 10
"""A phone's axis of annealing that spans more than this factor has a tick a decade."""


def draw_law(data: LawMap) -> Figure:
    """Dots coloured by the objective over 1 - chi (logarithmic) and r, with the law's line."""
    figure = Figure(figsize=(width(), 3.6), layout="constrained")
    ax: Any = figure.subplots()
    found = [dot.value for dot in data.dots]
    scale = colours(data.axis, found)
    ax.plot(*zip(*data.law, strict=True), color=INK, linewidth=1.2, zorder=1)
    ax.annotate("law", data.law[-1], (4, 0), "data", "offset points", va="center", fontsize=7.5)
    shown: Any = None
    for pruned in (True, False):
        dots = [dot for dot in data.dots if dot.pruned == pruned]
        if dots:
            values = [dot.value for dot in dots]
            x, y = [dot.x for dot in dots], [dot.r for dot in dots]
            style: dict[str, Any] = {"c": values, "cmap": COLOURS, "norm": scale, "zorder": 3}
            shape = {"marker": "X" if pruned else "o", "s": 38}
            style |= {"edgecolors": INK, "linewidths": 0.6}  # seen on a dark page, however dark
            shown = ax.scatter(x, y, **style, **shape)
    for dot in (dot for dot in data.dots if dot.best):
        ax.scatter([dot.x], [dot.r], s=90, facecolors="none", edgecolors=ACCENT, zorder=4)
    ax.set(xscale="log", xlabel="annealing, 1 − χ", ylabel="relative step r")
    places = [dot.x for dot in data.dots]
    crowded = is_narrow() and max(places) > SPAN * min(places)
    ax.xaxis.set_major_locator(LogLocator(subs=(1,) if crowded else (1, 2, 5)))
    ax.xaxis.set_major_formatter(lambda value, _: number(value))
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    bar = figure.colorbar(shown, ax=ax, label=data.axis.title)
    if data.axis.linear:
        bar.set_ticks(ticks_around_zero(data.axis, min(found), max(found)))
    bar.ax.yaxis.set_major_formatter(lambda value, _: number(value, 3))
    bar.ax.yaxis.set_minor_formatter(lambda value, _: "")
    return figure
