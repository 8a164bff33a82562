"""Scales of figures, as Matplotlib draws them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from ablate.report.names import Estimate
from ablate.report.plots import draw_ladder
from ablate.report.scales import colours, set_scale, ticks_around_zero
from ablate.report.shapes import Axis, Baseline, Dot, Ladder

AROUND_ZERO = Axis("KID", linear=0.02)


def test_ticks_are_zero_the_ends_of_the_linear_part_and_powers_of_ten() -> None:
    assert ticks_around_zero(AROUND_ZERO, -0.03, 4.0) == [-0.02, 0.0, 0.02, 0.1, 1.0]
    assert ticks_around_zero(Axis("KID", linear=0.1), -0.05, 20.0) == [0.0, 0.1, 1.0, 10.0]
    touching = Axis("KID", linear=0.05)  # 0.1 is a third of a decade away
    assert ticks_around_zero(touching, -0.07, 3.0) == [-0.05, 0.0, 0.1, 1.0]
    assert ticks_around_zero(AROUND_ZERO, -300.0, 0.01) == [-100.0, -10.0, -1.0, -0.1, -0.02, 0.0]


def test_decades_beyond_the_linear_part_are_evenly_spaced() -> None:
    """And the linear part is as long on both sides of zero as a decade, as Matplotlib has it."""
    ax = Figure().subplots()
    ax.plot([0, 1], [-0.01, 3.0])
    set_scale(ax, "y", AROUND_ZERO)
    place = ax.transScale.transform
    heights = [place((0, y))[1] for y in (-0.02, -0.01, 0.0, 0.01, 0.02, 0.2, 2.0)]
    lengths = [b - a for a, b in pairwise(heights)]
    assert lengths[:4] == [pytest.approx(lengths[0])] * 4
    assert lengths[4] == pytest.approx(lengths[5])
    assert ax.get_ylabel().endswith("linear within ±0.02, log beyond")


@pytest.mark.parametrize("axis", [Axis("KID", linear=0.1), Axis("KID", log=True)])
def test_a_dot_at_the_end_of_a_scale_is_not_cut(axis: Axis) -> None:
    """A line across the figure must not settle its ends before it has its scale."""
    dots = [Dot(n, "", float(n), Estimate(kid)) for n, kid in enumerate((0.01, 0.1, 3.0))]
    ax = draw_ladder(Ladder(axis, dots, [Baseline("no difference", 0.1)], [])).axes[0]
    places = (ax.transScale + ax.transLimits).transform([(dot.y.value, dot.x) for dot in dots])
    assert min(places[:, 0]) > 0.02
    assert max(places[:, 0]) < 0.98


@pytest.mark.parametrize("axis", [Axis("χ"), Axis("N", log=True)])
def test_a_short_axis_has_few_numbers(axis: Axis) -> None:
    """Beside another one on a phone 0.9985, 0.9990, … ran into each other."""
    ax = Figure().subplots()
    ax.plot([0.05, 1.0], [0, 1])
    set_scale(ax, "x", axis, short=True)
    low, high = ax.get_xlim()
    assert 2 <= sum(low <= tick <= high for tick in ax.get_xticks()) <= 4


def test_colours_tell_values_near_zero_apart() -> None:
    """On a linear scale both would be within a hundredth of each other."""
    values = [-0.01, 0.01, 2.0]
    shades = colours(AROUND_ZERO, values)
    assert shades(0.01) - shades(-0.01) > 0.2
    assert [shades(-0.01), shades(2.0)] == pytest.approx([0, 1])
    assert colours(Axis("KID"), values)(0.01) < 0.01
    assert colours(Axis("KID", log=True), [0.01, 0.1, 1.0])(0.1) == pytest.approx(0.5)


def test_a_baseline_far_away_makes_the_ticks_of_a_logarithmic_axis_few() -> None:
    """On a phone's figure three labels a decade over three decades ran into each other."""
    dots = [Dot(n, "", float(n), Estimate(kid)) for n, kid in enumerate((0.1, 0.2, 0.5))]
    near = [Baseline("training images", 1e-4)]
    figure = draw_ladder(Ladder(Axis("KID", log=True), dots, near, []))
    figure.draw_without_rendering()
    labels = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert 3 <= len([label for label in labels if label]) <= 8
