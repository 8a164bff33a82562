"""How figures look: colours, markers, sizes. Legible in colour, to the colour-blind and in grey."""

from __future__ import annotations

from typing import Any

import matplotlib
import seaborn

INK, QUIET, ACCENT = "#22313f", "#8795a1", "#c8501e"
NOTE, GRID, PAPER = "#5f6f7c", "#e8ecef", "#ffffff"
COLOURS: list[str] = seaborn.color_palette("colorblind").as_hex()
MARKERS = "osD^vP*"  # seven, and ten colours: seventy labels differ, seven of them in grey
WIDTH = 7.6  # inches: a page
NARROW = 3.65  # inches: a phone, at the same size of letters
LINE: dict[str, Any] = {
    **{"fontsize": 8, "ha": "left", "va": "bottom", "zorder": 2},
    "bbox": {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6},
}
CROWD = 60  # dots; more are drawn small and see-through
ABREAST = 5  # names of colours in a line, at most
SMALL: dict[str, Any] = {"fontsize": 7.5, "color": NOTE}
DASHED: dict[str, Any] = {"color": QUIET, "linewidth": 1, "linestyle": (0, (4, 2)), "zorder": 1}

THEME = {
    INK: "ink",
    QUIET: "axis",
    ACCENT: "accent",
    NOTE: "quiet",
    GRID: "grid",
    PAPER: "paper",
    "#000000": "ink",
    **{colour.lower(): f"c{place}" for place, colour in enumerate(COLOURS)},
}
"""Colour -> the variable of the page's style that takes its place, so that figures turn dark."""

STYLE: Any = {
    **seaborn.axes_style("ticks"),
    **seaborn.plotting_context("paper"),
    "font.family": "DejaVu Sans",  # ships with Matplotlib: the same everywhere
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "figure.facecolor": "white",
    "figure.figsize": (WIDTH, 3.6),
    "svg.hashsalt": "ablate",  # with no date below: the same results give the same bytes
    "svg.fonttype": "path",
    "pdf.fonttype": 42,  # TrueType: some publishers refuse Type 3
}


def width() -> float:
    """The width of the figure that is being drawn, in inches: WIDTH or NARROW."""
    return float(matplotlib.rcParams["figure.figsize"][0])


def is_narrow() -> bool:
    """Whether the figure that is being drawn is for a phone."""
    return width() < WIDTH
