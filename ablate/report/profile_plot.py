"""Performance profiles -> a Matplotlib figure."""

from __future__ import annotations

from typing import Any

import seaborn
from matplotlib.figure import Figure

from ablate.report.look import COLOURS, is_narrow, width
from ablate.report.scales import set_scale
from ablate.report.shapes import Profiles

DASHES: list[Any] = ["-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2))]
"""Lines differ in these, too, and not in their colour alone."""


def draw_profiles(data: Profiles) -> Figure:
    """Shares as steps over the threshold, named beside the figure, below it on a phone."""
    tall = 3.4 + 0.22 * len(data.lines) * is_narrow()
    figure = Figure(figsize=(width(), tall), layout="constrained")
    ax = figure.subplots()
    for place, line in enumerate(data.lines):
        style = {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}
        ax.step(*zip(*line.steps, strict=True), where="post", label=line.label, lw=1.5, **style)
    ends = [threshold for line in data.lines for threshold, _ in line.steps]
    ax.set_xlim(min(ends), max(ends))
    set_scale(ax, "x", data.axis)
    ax.set(ylabel="share of runs", ylim=(-0.02, 1.02))
    where: Any = "outside lower left" if is_narrow() else "outside right upper"
    figure.legend(loc=where, frameon=False, handlelength=2.6)
    seaborn.despine(ax=ax)
    return figure
