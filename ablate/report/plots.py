"""Figure data -> Matplotlib figures, each in the width of `look.width`."""

from __future__ import annotations

import math
from itertools import pairwise
from textwrap import fill
from typing import Any

import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from ablate.report.dots import points
from ablate.report.look import (
    ABREAST,
    ACCENT,
    COLOURS,
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
from ablate.report.shapes import Axis, Baseline, Dot, Ladder, Panel, Panels, Scatter

LETTER = 5.2  # points: the width of a digit of a tick
BESIDE = 60  # points of a panel's width beside its first and last values
TALL = 22  # letters along the height of a panel


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
    points(ax, data.dots, lines := [dot.x for dot in data.dots], across=True)
    if data.joined:
        ax.plot([dot.y.value for dot in data.dots], lines, color=QUIET, linewidth=1, zorder=1)
    _name_lines(ax, data.dots, lines)
    ax.set_ylim(len(data.dots) - 0.4, -0.6)
    for line in data.near:  # before the scale, whose ticks depend on how far the axis reaches
        ax.axvline(line.value, **DASHED)
    beyond = (";\n" if is_narrow() else "; ").join(line.text for line in data.far)
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
    above = 0.2 * (1 + _lines_of_colours(data)) if data.colours else 0.0  # inches
    figure = Figure(figsize=(wide, tall * rows + above), layout=layout)
    share: dict[str, Any] = {"sharex": kinds, "sharey": not kinds}
    grid = figure.subplots(rows, columns, squeeze=False, **share).flatten()
    for ax in grid[len(data.panels) :]:
        ax.remove()
    for place, (ax, panel) in enumerate(zip(grid, data.panels, strict=False)):
        if kinds:
            _draw_kinds(ax, panel, data.axis)
        else:
            _draw_sweep(ax, panel, data, 72 * wide / columns - BESIDE)
            if place % columns:
                ax.set_ylabel("")
    if data.colours:
        _name_colours(figure, data)
    return figure


def _name_colours(figure: Figure, data: Panels) -> None:
    """The values of the knob that colours the dots, above the panels."""
    made = [
        Line2D([], [], color=colour, marker=marker, linestyle="", markersize=5, label=str(value))
        for value, (colour, marker) in _looks(data).items()
    ]
    columns = -(-len(made) // _lines_of_colours(data))
    style: dict[str, Any] = {"handletextpad": 0, "frameon": False, "alignment": "left"}
    figure.legend(handles=made, title=data.by, ncols=columns, loc="outside upper left", **style)


def _lines_of_colours(data: Panels) -> int:
    return -(-len(_looks(data)) // (2 if is_narrow() else ABREAST))


def _looks(data: Panels) -> dict[str | None, tuple[str | None, str]]:
    """Value of the knob that colours the dots -> colour and marker; the same for all without."""
    looks: dict[str | None, tuple[str | None, str]] = {}
    for value in data.colours.values():
        looks.setdefault(value, (COLOURS[len(looks) % len(COLOURS)], MARKERS[len(looks)]))
    return looks or {None: (None, "o")}


def _draw_kinds(ax: Axes, panel: Panel, objective: Axis) -> None:
    for place, mean in enumerate(panel.means):
        ax.plot([mean, mean], [place - 0.32, place + 0.32], color=INK, linewidth=1.6, zorder=2)
    aside = [0.14 * (turn % 3 - 1) for turn in range(len(panel.dots))]  # not to hide each other
    places = [dot.x + shift for dot, shift in zip(panel.dots, aside, strict=True)]
    points(ax, panel.dots, places, across=True)
    ax.set_yticks(range(len(panel.kinds)), list(panel.kinds))
    ax.set_ylim(len(panel.kinds) - 0.5, -0.5)
    ax.set_title(panel.axis.label, loc="left", fontsize=9, fontweight="bold")
    set_scale(ax, "x", objective)
    ax.tick_params(labelbottom=True)  # also above a place without a panel
    _bare(ax)


def _draw_sweep(ax: Axes, panel: Panel, data: Panels, room: float) -> None:
    """room: points from the first of the panel's values to the last, about."""
    for value, (colour, marker) in _looks(data).items():
        dots = [dot for dot in panel.dots if data.colours.get(dot.trial) == value]
        points(ax, dots, [dot.x for dot in dots], across=False, colour=colour, marker=marker)
    set_scale(ax, "x", panel.axis, short=is_narrow())
    set_scale(ax, "y", data.axis)
    ax.set_ylabel("\n".join(fill(line, TALL) for line in data.axis.title.split("\n")))
    ax.xaxis.label.set_fontweight("bold")
    ticks = panel.ticks()
    if ticks and not panel.axis.log and fit(ticks, room):
        ax.set_xticks(ticks, [number(tick) for tick in ticks])
    ax.margins(x=0.12)
    seaborn.despine(ax=ax)


def fit(ticks: list[float], room: float) -> bool:
    """Whether the numbers of these ticks stand clear of each other in so many points."""
    names, span = [len(number(tick)) for tick in ticks], ticks[-1] - ticks[0]
    halves = [LETTER * (one + other) / 2 for one, other in pairwise(names)]
    gaps = [room * (high - low) / span for low, high in pairwise(ticks)]
    return all(gap > half + LETTER for gap, half in zip(gaps, halves, strict=True))


def draw_scatter(data: Scatter) -> Figure:
    """Trials coloured by their label, named above if there are several; the front joined and
    numbered."""
    figure = Figure(figsize=(width(), 3.6), layout="constrained")
    ax = figure.subplots()
    labels = sorted({dot.label for dot in data.dots})
    for i, label in enumerate(labels):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        group = [dot for dot in data.dots if dot.label == label]
        points(ax, group, [dot.x for dot in group], across=False, colour=colour, marker=marker)
        ax.plot([], [], marker, color=colour, label=label, markersize=5)
    for line in data.near:
        ax.axhline(line.value, **DASHED)
    set_scale(ax, "x", data.x)
    set_scale(ax, "y", data.y)
    _draw_front(ax, data)
    for line in data.near:
        _name_baseline(ax, line, data.dots)
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


def _name_baseline(ax: Axes, line: Baseline, dots: list[Dot]) -> None:
    """Above its line, at the end where fewer dots are in the way."""
    height = _place(ax, 1.0, line.value)[1]
    places = [_place(ax, dot.x, dot.y.value) for dot in dots]
    beside = [x for x, y in places if height - 0.04 < y < height + 0.1]
    left = sum(x > 0.6 for x in beside) > sum(x < 0.4 for x in beside)
    end, shift, align = (0, 3, "left") if left else (1, -3, "right")
    _note(ax, line.text, (end, line.value), (shift, 3), ("axes fraction", "data"), align)


def _place(ax: Axes, x: float, y: float) -> tuple[float, float]:
    """Where a value stands in the axes, from (0, 0) to (1, 1)."""
    across, up = (ax.transScale + ax.transLimits).transform((x, y))
    return float(across), float(up)


def _draw_front(ax: Axes, data: Scatter) -> None:
    """The front's line and the numbers of its trials, but for those that would hide each other."""
    if not data.front:
        return
    ax.plot(*zip(*data.front, strict=True), color=ACCENT, linewidth=1.2, zorder=2)
    right, up = data.beyond[0] > 0, data.beyond[1] > 0
    shift, side = (4 if right else -4, 4 if up else -10), "left" if right else "right"
    named: list[tuple[float, float]] = []
    for dot in sorted(data.dots, key=lambda dot: not dot.best):
        x, y = _place(ax, dot.x, dot.y.value)
        hidden = any(abs(x - a) < 0.36 / width() and abs(y - b) < 0.06 for a, b in named)
        if (dot.x, dot.y.value) in data.front and not hidden:
            named.append((x, y))
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


def _bare(ax: Axes) -> None:
    """No grid, ticks or spine where names stand."""
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    seaborn.despine(ax=ax, left=True)
