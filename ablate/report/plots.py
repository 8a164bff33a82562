"""Figure data -> Matplotlib figures, each in the width of `look.width`."""

from __future__ import annotations

import math
from typing import Any

import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ablate.report.look import (
    ABREAST,
    ACCENT,
    COLOURS,
    CROWD,
    DASHED,
    INK,
    LINE,
    MARKERS,
    QUIET,
    SMALL,
    is_narrow,
    width,
)
from ablate.report.names import number
from ablate.report.scales import set_scale
from ablate.report.shapes import Axis, Dot, Ladder, Panel, Panels, Scatter


def draw(data: Ladder | Panels | Scatter) -> Figure:
    """The Matplotlib figure of what `figures` made."""
    if isinstance(data, Ladder):
        return draw_ladder(data)
    return draw_panels(data) if isinstance(data, Panels) else draw_scatter(data)


def draw_ladder(data: Ladder) -> Figure:
    """The first on top, intervals across, baselines as lines from top to bottom."""
    tall = 0.42 if is_narrow() else 0.27
    figure = Figure(figsize=(width(), 1.2 + tall * len(data.dots)), layout="constrained")
    ax = figure.subplots()
    _points(ax, data.dots, lines := [dot.x for dot in data.dots], across=True)
    if data.joined:
        ax.plot([dot.y.value for dot in data.dots], lines, color=QUIET, linewidth=1, zorder=1)
    _name_lines(ax, data.dots, lines)
    ax.set_ylim(len(data.dots) - 0.4, -0.6)
    for line in data.near:  # before the scale, whose ticks depend on how far the axis reaches
        ax.axvline(line.value, **DASHED)
    beyond = "; ".join(line.text for line in data.far)
    set_scale(ax, "x", data.axis, f"\n(off the scale: {beyond})" if beyond else "")
    _bare(ax)
    for row, line in enumerate(data.near):
        shift = (0, 3 + 11 * row)  # a row to each: baselines may stand close together
        _note(ax, line.text, (line.value, 1), shift, ("data", "axes fraction"), "center")
    return figure


def _name_lines(ax: Axes, dots: list[Dot], lines: list[float]) -> None:
    """The dots' labels at the left; above each line where a figure is narrow."""
    ax.set_yticks(lines, [""] * len(lines) if is_narrow() else [dot.label for dot in dots])
    for dot, line in zip(dots, lines, strict=True) if is_narrow() else ():
        place: Any = ("axes fraction", "data")
        ax.annotate(dot.label, (0, line), (0, 5), place, "offset points", **LINE)


def draw_panels(data: Panels) -> Figure:
    """Small multiples on one objective's scale: kinds in two columns, numbers in three."""
    kinds = bool(data.panels[0].kinds)
    columns = min((2 if kinds else 3) - is_narrow(), len(data.panels))
    rows = math.ceil(len(data.panels) / columns)
    tall = 0.8 + 0.32 * max(len(panel.kinds) for panel in data.panels) if kinds else 2.2
    wide = width() if columns > 1 or is_narrow() else 0.62 * width()
    layout = ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.06)
    figure = Figure(figsize=(wide, tall * rows), layout=layout)
    share: dict[str, Any] = {"sharex": kinds, "sharey": not kinds}
    grid = figure.subplots(rows, columns, squeeze=False, **share).flatten()
    for ax in grid[len(data.panels) :]:
        ax.remove()
    for place, (ax, panel) in enumerate(zip(grid, data.panels, strict=False)):
        if kinds:
            _draw_kinds(ax, panel, data.axis)
        else:
            _draw_sweep(ax, panel, data.axis, labelled=place % columns == 0)
    return figure


def _draw_kinds(ax: Axes, panel: Panel, objective: Axis) -> None:
    for place, mean in enumerate(panel.means):
        ax.plot([mean, mean], [place - 0.32, place + 0.32], color=INK, linewidth=1.6, zorder=2)
    aside = [0.14 * (turn % 3 - 1) for turn in range(len(panel.dots))]  # not to hide each other
    places = [dot.x + shift for dot, shift in zip(panel.dots, aside, strict=True)]
    _points(ax, panel.dots, places, across=True)
    ax.set_yticks(range(len(panel.kinds)), list(panel.kinds))
    ax.set_ylim(len(panel.kinds) - 0.5, -0.5)
    ax.set_title(panel.axis.label, loc="left", fontsize=9, fontweight="bold")
    set_scale(ax, "x", objective)
    ax.tick_params(labelbottom=True)  # also above a place without a panel
    _bare(ax)


def _draw_sweep(ax: Axes, panel: Panel, objective: Axis, labelled: bool) -> None:
    _points(ax, panel.dots, [dot.x for dot in panel.dots], across=False)
    set_scale(ax, "x", panel.axis)
    set_scale(ax, "y", objective)
    ax.xaxis.label.set_fontweight("bold")
    if (ticks := panel.ticks()) and not panel.axis.log:
        ax.set_xticks(ticks, [number(tick) for tick in ticks])
    ax.margins(x=0.12)
    if not labelled:
        ax.set_ylabel("")
    seaborn.despine(ax=ax)


def draw_scatter(data: Scatter) -> Figure:
    """Trials coloured by their label, named above if there are several; the front joined and
    numbered."""
    figure = Figure(figsize=(width(), 3.6), layout="constrained")
    ax = figure.subplots()
    labels = sorted({dot.label for dot in data.dots})
    for i, label in enumerate(labels):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        group = [dot for dot in data.dots if dot.label == label]
        _points(ax, group, [dot.x for dot in group], across=False, colour=colour, marker=marker)
        ax.plot([], [], marker, color=colour, label=label, markersize=5)
    for line in data.near:
        ax.axhline(line.value, **DASHED)
    set_scale(ax, "x", data.x)
    set_scale(ax, "y", data.y)
    _draw_front(ax, data)
    for line in data.near:
        _note(ax, line.text, (1, line.value), (-3, 3), ("axes fraction", "data"), "right")
    if len(labels) > 1:
        lines = -(-len(labels) // (2 if is_narrow() else ABREAST))
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=-(-len(labels) // lines),
            handletextpad=0,
            frameon=False,
        )
    seaborn.despine(ax=ax)
    return figure


def _draw_front(ax: Axes, data: Scatter) -> None:
    if not data.front:
        return
    ax.plot(*zip(*data.front, strict=True), color=ACCENT, linewidth=1.2, zorder=2)
    for dot in data.dots:
        if (dot.x, dot.y.value) in data.front:
            right, up = data.beyond[0] > 0, data.beyond[1] > 0
            shift = (4 if right else -4, 4 if up else -10)
            side = "left" if right else "right"
            _note(ax, f"#{dot.trial}", (dot.x, dot.y.value), shift, "data", side)


def _note(
    ax: Axes,
    words: str,
    place: tuple[float, float],
    shift: tuple[int, int],
    coordinates: Any,
    align: str,
) -> None:
    ax.annotate(words, place, shift, coordinates, "offset points", ha=align, **SMALL)


def _points(
    ax: Axes,
    dots: list[Dot],
    places: list[float],
    *,
    across: bool,
    colour: str | None = None,
    marker: str = "o",
) -> None:
    """Trials with their intervals, at `places` of the other axis; one call to a kind of dot."""
    placed = list(zip(dots, places, strict=True))
    for kind in sorted({_kind(dot) for dot in dots}):
        chosen = [(dot, place) for dot, place in placed if _kind(dot) == kind]
        values = [dot.y.value for dot, _ in chosen]
        halves = [dot.y.half or 0.0 for dot, _ in chosen]
        others = [place for _, place in chosen]
        style = {"fmt": marker} | _dot_style(*kind, len(dots) > CROWD, colour)
        if across:
            bars = ax.errorbar(values, others, xerr=halves, **style)
        else:
            bars = ax.errorbar(others, values, yerr=halves, **style)
        bars[0].set_gid(_identity(ax, [dot.trial for dot, _ in chosen]))


def _identity(ax: Axes, trials: list[int]) -> str:
    """An id for the dots of these trials, by which the page finds them: trials0.2-5-7."""
    figure: Any = ax.figure
    return f"trials{figure.axes.index(ax)}.{len(ax.lines)}-{'-'.join(map(str, trials))}"


def _kind(dot: Dot) -> tuple[bool, bool, bool]:
    return dot.best, dot.leaks, dot.pruned


def _dot_style(
    best: bool, leaks: bool, pruned: bool, crowded: bool, colour: str | None
) -> dict[str, Any]:
    """Ringed if it is the best, hollow if it leaks data, a cross if pruned, small in a crowd."""
    style: dict[str, Any] = {"color": colour or COLOURS[0], "zorder": 3}
    style |= {"markersize": 4.5, "elinewidth": 1.1}
    if crowded and not best:
        style |= {"markersize": 3, "elinewidth": 0.6, "alpha": 0.45}
    if best:
        style |= {"markersize": 6.5, "markeredgecolor": INK, "zorder": 4, "color": colour or ACCENT}
    if leaks:
        style |= {"markerfacecolor": "white"}
    if pruned:
        style |= {"fmt": "x", "color": QUIET, "markersize": 4, "zorder": 2}
    return style


def _bare(ax: Axes) -> None:
    """No grid, ticks or spine where names stand."""
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    seaborn.despine(ax=ax, left=True)
