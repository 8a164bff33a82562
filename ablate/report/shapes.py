"""What a figure shows, as data: `figures` makes it, `plots` draws it, tests read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ablate.report.names import Estimate, number

WIDE = 10
"""A positive axis that spans more than this factor is logarithmic."""


class Dot(NamedTuple):
    """One trial in a figure."""

    trial: int
    label: str
    x: float
    y: Estimate
    best: bool = False
    leaks: bool = False
    pruned: bool = False  # before its last sample


class Baseline(NamedTuple):
    """A line across the figure."""

    label: str
    value: float

    @property
    def text(self) -> str:
        """held-out images 0.0008"""
        return f"{self.label} {number(self.value)}"


class Axis(NamedTuple):
    """The label of an axis and whether it is logarithmic."""

    label: str
    log: bool = False


class Ladder(NamedTuple):
    """Trials, one to a line, the first on top; x counts the lines."""

    axis: Axis
    dots: list[Dot]
    near: list[Baseline]
    far: list[Baseline]  # off the scale: named, not drawn
    joined: bool = False  # by a line, where each follows from the one above


class Panel(NamedTuple):
    """One knob against the objective. Kinds stand at 0, 1, … of x, best mean first; those without a
    complete trial come last and have none."""

    axis: Axis
    dots: list[Dot]
    kinds: Sequence[str] = ()
    means: Sequence[float] = ()

    def ticks(self) -> list[float]:
        """A tick at each value, where these are few and stand clear of each other; else none."""
        values = sorted({dot.x for dot in self.dots})
        clear = 0.15 * (values[-1] - values[0])
        close = any(high - low < clear for low, high in pairwise(values))
        return [] if len(values) > 5 or close else values


class Panels(NamedTuple):
    """Several knobs against the same objective."""

    axis: Axis  # the objective's
    panels: list[Panel]


class Scatter(NamedTuple):
    """Objective against cost, or two objectives with their Pareto front."""

    x: Axis
    y: Axis
    dots: list[Dot]
    near: list[Baseline]
    front: list[tuple[float, float]]


class MapDot(NamedTuple):
    """One trial on the map of annealing and step."""

    trial: int
    x: float  # 1 - chi; the map's left edge without annealing
    r: float
    value: float
    best: bool = False
    pruned: bool = False


class LawMap(NamedTuple):
    """The objective over annealing and step, and the step that the law pairs with annealing."""

    label: str  # of the objective
    dots: list[MapDot]
    law: list[tuple[float, float]]  # (1 - chi, r)
    left: float  # where trials without annealing stand: 0 has no place on a logarithmic axis
    log: bool  # whether colours are logarithmic


class Drawn(NamedTuple):
    """A figure as images, already drawn: for shapes that `plots` does not know."""

    svg: bytes
    png: bytes
    pdf: bytes = b""
    narrow: bytes = b""  # an SVG for phones; without it the wide one is scrolled


Shape = Ladder | Panels | Scatter | LawMap | Drawn


def is_wide(values: Iterable[float]) -> bool:
    """Whether all values are positive and span more than a factor WIDE."""
    values = list(values)
    return bool(values) and min(values) > 0 and max(values) / min(values) > WIDE


def axis(label: str, values: Iterable[float]) -> Axis:
    """An axis that shows these values, logarithmic if they span a wide range."""
    return Axis(label, is_wide(values))
