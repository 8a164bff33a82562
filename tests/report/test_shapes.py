"""Scales and ticks of figures."""

from __future__ import annotations

import pytest

from ablate.report import shapes
from ablate.report.names import Estimate


def test_an_axis_is_logarithmic_only_if_positive_and_wide() -> None:
    assert shapes.is_wide([0.01, 0.2])
    assert not shapes.is_wide([0.01, 0.02])
    assert not shapes.is_wide([-0.001, 0.2])
    assert not shapes.is_wide([])


def estimates(*values: tuple[float, float]) -> list[Estimate]:
    return [Estimate(*each) for each in values]


def test_values_near_zero_and_far_away_share_an_axis() -> None:
    """Linear as far as the interval of the nearest to zero reaches, rounded up to 1, 2 or 5."""
    near, far = (-0.003, 0.012), (2.0, 0.5)
    assert shapes.axis_of("KID", estimates(near, (0.05, 0.02), far)).linear == 0.02
    title = shapes.axis_of("KID", estimates(near, far)).title
    assert title == "KID\nlinear within ±0.02, log beyond"


@pytest.mark.parametrize(
    ("found", "log"),
    [
        (((-0.003, 0.012), (0.1, 0.02)), False),  # 0.1 is five times 0.02
        (((0.05, 0.01), (2.0, 0.5)), True),  # all above zero
        (((0.05, 0.01), (0.2, 0.05)), False),
        (((0.0, 0.0), (0.0, 0.0)), False),
        ((), False),
    ],
)
def test_an_axis_of_one_kind_where_that_shows_all(
    found: tuple[tuple[float, float], ...], log: bool
) -> None:
    assert shapes.axis_of("KID", estimates(*found)) == shapes.Axis("KID", log)


def test_one_zero_without_an_interval_does_not_stretch_an_axis() -> None:
    """The linear part has a thousandth of the largest value at least."""
    assert shapes.axis_of("KID", estimates((0.0, 0.0), (1.0, 0.0))).linear == 0.001


def panel(*values: float) -> shapes.Panel:
    dots = [shapes.Dot(number, "", x, Estimate(0.1)) for number, x in enumerate(values)]
    return shapes.Panel(shapes.Axis("L"), dots)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((3, 1, 2, 1), [1, 2, 3]),
        ((1, 1.1, 2), []),  # 0.1 apart: less than 15 % of the span
        ((1, 2, 3, 4, 5, 6), []),
        ((2, 2), [2]),
    ],
)
def test_few_values_that_stand_clear_have_ticks(
    values: tuple[float, ...], ticks: list[float]
) -> None:
    assert panel(*values).ticks() == ticks
