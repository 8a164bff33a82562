"""Trials as dots with their intervals, drawn so that the page finds each trial's dot."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from ablate.report.look import ACCENT, COLOURS, CROWD, INK, QUIET
from ablate.report.shapes import Dot


def points(
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
