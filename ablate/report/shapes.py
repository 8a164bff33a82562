"""What a figure shows, as data: `figures` makes it, `plots` draws it, tests read it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from ablate.report.names import Estimate, number

WIDE = 10
"""A positive axis that spans more than this factor is logarithmic."""

APART = 5
"""A value further from zero than this many linear parts of the axis is on the logarithmic part."""

DEEPEST = 1e-3
"""The linear part of an axis around zero, at least, as a share of its largest value."""


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
    half: float | None = None  # half-width of its 95 % interval, where it has one

    @property
    def text(self) -> str:
        """held-out images 0.0008: no digits that the interval leaves open"""
        places = 1 - math.floor(math.log10(self.half)) if self.half else None
        return f"{self.label} {number(self.value if places is None else round(self.value, places))}"


class Axis(NamedTuple):
    """The label of an axis and how values stand on it.

    log: whether it is logarithmic.
    linear: it is linear up to this distance from zero and logarithmic beyond; 0: of one kind.
    """

    label: str
    log: bool = False
    linear: float = 0.0

    @property
    def title(self) -> str:
        """The label, with the place where the scale changes."""
        if not self.linear:
            return self.label
        return f"{self.label}\nlinear within ±{number(self.linear)}, log beyond"


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
    by: str = ""  # the knob that colours the dots
    colours: Mapping[int, str] = MappingProxyType({})  # trial -> its value of that knob, in order


class Scatter(NamedTuple):
    """Objective against cost, or two objectives with their Pareto front."""

    x: Axis
    y: Axis
    dots: list[Dot]
    near: list[Baseline]
    front: list[tuple[float, float]]
    beyond: tuple[int, int] = (1, 1)  # where from the front no dots are: right or left, up or down


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

    axis: Axis  # of the objective: colours
    dots: list[MapDot]
    law: list[tuple[float, float]]  # (1 - chi, r)
    left: float  # where trials without annealing stand: 0 has no place on a logarithmic axis


class Profile(NamedTuple):
    """A share that grows with a threshold."""

    label: str
    steps: list[tuple[float, float]]  # (threshold, share from there on)


class Profiles(NamedTuple):
    """The profiles of several configurations."""

    axis: Axis  # of the threshold
    lines: list[Profile]  # best first


class Drawn(NamedTuple):
    """A figure as images, already drawn: for shapes that `plots` does not know."""

    svg: bytes
    png: bytes
    pdf: bytes = b""
    narrow: bytes = b""  # an SVG for phones; without it the wide one is scrolled


Shape = Ladder | Panels | Scatter | LawMap | Profiles | Drawn


def is_wide(values: Iterable[float]) -> bool:
    """Whether all values are positive and span more than a factor WIDE."""
    values = list(values)
    return bool(values) and min(values) > 0 and max(values) / min(values) > WIDE


def axis(label: str, values: Iterable[float]) -> Axis:
    """An axis that shows these values, logarithmic if they span a wide range."""
    return Axis(label, is_wide(values))


def axis_of(label: str, estimates: Iterable[Estimate]) -> Axis:
    """An axis that shows these estimates with their intervals.

    If they span a wide range it is logarithmic; if the nearest to zero cannot be told from it,
    linear as far as that one's interval reaches and logarithmic beyond.
    """
    found = [each for each in estimates if math.isfinite(each.value)]
    if not found:
        return Axis(label)
    most = max(abs(each.value) for each in found)
    if all(each.value > (each.half or 0.0) for each in found):
        return Axis(label, is_wide(each.value for each in found))
    nearest = min(found, key=lambda each: abs(each.value))
    linear = _round_up(max(abs(nearest.value) + (nearest.half or 0.0), DEEPEST * most))
    return Axis(label, linear=linear if most > APART * linear > 0 else 0.0)


def _round_up(value: float) -> float:
    """The next of …, 0.1, 0.2, 0.5, 1, 2, 5, …"""
    if value <= 0:
        return 0.0
    power = math.floor(math.log10(value))
    steps = (float(f"{step}e{power}") for step in (1, 2, 5, 10))
    return next(step for step in steps if step >= value * (1 - 1e-9))
