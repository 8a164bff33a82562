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
