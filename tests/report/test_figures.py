"""Figures as data, and where their words stand once they are drawn."""

from __future__ import annotations

from typing import Any

import matplotlib
import pytest

from ablate.report import figures, plots, shapes
from ablate.report.look import NARROW, STYLE
from ablate.report.names import Estimate
from ablate.report.shapes import Axis, Baseline, Dot, Ladder, Panel, Panels, Scatter
from ablate.results import StudyResults
from tests.report.reading import caption_of, two_objectives
from tests.support.records import lost


def test_the_ladder_names_every_knob_where_there_are_few(results: StudyResults) -> None:
    few = [t._replace(params={"init": t.params["init"], "L": t.number % 4}) for t in results.trials]
    data = figures.ladder(results._replace(trials=few), count=3)
    assert data is not None
    assert all("L = " in dot.label for dot in data.dots)


def test_the_ladder_distinguishes_configurations_if_knobs_are_many(
    results: StudyResults,
) -> None:
    many = [
        t._replace(params={"sampler": "adls", "chi": 1.0, "r": t.number % 2, "L": t.number})
        for t in results.trials
    ]
    many[0].params.update(chi=0.9, sampler="asams")  # now all four vary
    data = figures.ladder(results._replace(trials=many), count=3)
    assert data is not None
    assert [dot.label for dot in data.dots] == [
        "adls, L = 9  #9",
        "adls, L = 13  #13",
        "adls, L = 3  #3",
    ]


def test_a_fourth_knob_names_what_three_do_not_distinguish(results: StudyResults) -> None:
    """Words come first, but the knob that the study turns must not be missing behind them."""
    alike = [
        t._replace(params={"sampler": "adls", "init": "gaussian", "grid": "law", "chi": t.number})
        for t in results.trials
    ]
    alike[0] = alike[0]._replace(params={"sampler": "asams", "init": "x", "grid": "y", "chi": 0.5})
    data = figures.ladder(results._replace(trials=alike), count=3)
    assert data is not None
    assert [dot.label for dot in data.dots][:2] == [
        "adls, gaussian, χ = 9, law  #9",
        "adls, gaussian, χ = 13, law  #13",
    ]


def test_the_ladder_holds_the_best_and_sorts_the_baselines(results: StudyResults) -> None:
    data = figures.ladder(results, count=3)
    assert data is not None
    assert [dot.trial for dot in data.dots] == [9, 13, 3]
    assert [dot.best for dot in data.dots] == [False, True, False]  # 9 is an oracle
    assert [dot.leaks for dot in data.dots] == [True, False, False]
    assert data.dots[0].label == "pf-heun, forward-data (leaks data)  #9"
    # the dots span 0.0087 to 0.0132: both baselines lie more than that span away
    assert [line.label for line in data.far] == ["held-out images", "class-gaussian, no network"]
    wide = figures.ladder(results, count=15)  # 0.0094 to 0.142 is more than tenfold
    assert wide is not None
    assert wide.axis.log
    assert len(wide.near) == 2


def test_panels_hold_every_varied_knob_once(results: StudyResults) -> None:
    kinds, sweeps = figures.choices(results), figures.sweeps(results)
    assert kinds is not None
    assert sweeps is not None
    assert [panel.axis.label for panel in kinds.panels] == ["sampler", "init"]
    assert [panel.axis.label for panel in sweeps.panels] == ["χ", "r", "L", "n", "levels"]
    start = kinds.panels[1]
    assert start.kinds[0] == "forward-data (leaks data)"
    assert start.means[0] == pytest.approx(0.01225)
    assert [len(panel.dots) for panel in sweeps.panels] == [11, 11, 11, 11, 15]


def test_sweeps_are_coloured_by_the_knob_that_moves_the_mean_most(results: StudyResults) -> None:
    """Of sampler, init, chi, L, n and levels that is init: log-normal starts have 0.119 to 0.142,
    all others less than 0.045."""
    data = figures.sweeps(results)
    assert data is not None
    assert data.by == "init"
    assert list(dict.fromkeys(data.colours.values())) == [
        *("class-average", "class-gaussian", "forward-data (leaks data)", "lognormal"),
    ]
    assert data.colours[2] == "lognormal"
    assert data.colours.keys() == {dot.trial for panel in data.panels for dot in panel.dots}


def test_a_sweep_of_the_only_knob_has_one_colour(results: StudyResults) -> None:
    alone = [t._replace(params={"chi": t.params["chi"]}) for t in results.trials[:4]]
    alone[0] = alone[0]._replace(params={"chi": 0.5})
    data = figures.sweeps(results._replace(trials=alone))
    assert data is not None
    assert (data.by, dict(data.colours)) == ("", {})


def test_what_was_pruned_is_shown_at_its_last_value(results: StudyResults) -> None:
    settings = {**results.trials[0].params, "init": "gaussian", "chi": 0.99}
    partial = {"kid_n64": 0.9, "kid_n128": 0.5, "fid_n128": 9.0}
    pruned = lost(20, "pruned", settings, "worse")._replace(metrics=partial)
    shown = results._replace(trials=[*results.trials, pruned])
    kinds, sweeps = figures.choices(shown), figures.sweeps(shown)
    assert kinds is not None
    assert sweeps is not None
    (init,) = (panel for panel in kinds.panels if panel.axis.label == "init")
    assert init.kinds[-1] == "gaussian"  # last, for it is worst
    assert len(init.means) == len(init.kinds)  # effects are over pruned trials, too
    assert init.means[-1] == 0.5
    last = float(len(init.kinds) - 1)
    assert init.dots[-1] == shapes.Dot(20, "gaussian", last, Estimate(0.5), pruned=True)
    (chi,) = (panel for panel in sweeps.panels if panel.axis.label == "χ")
    assert (chi.dots[-1].x, chi.dots[-1].y.value) == (0.99, 0.5)
    assert caption_of(shown, "sweeps").endswith("Crosses: pruned, at their last value.")
    assert "Crosses" not in caption_of(results, "sweeps")
    ladder = figures.ladder(shown, count=99)
    assert ladder is not None
    assert 20 not in [dot.trial for dot in ladder.dots]  # not ranked


def test_cost_and_tradeoff(results: StudyResults) -> None:
    cost = figures.against_cost(results)
    assert cost is not None
    assert {dot.x for dot in cost.dots if dot.label == "pf-heun"} == {17.0, 37.0}
    assert figures.tradeoff(results) is None
    both = two_objectives()
    assert figures.against_cost(both) is None  # the same figure twice
    trade = figures.tradeoff(both)
    assert trade is not None
    assert [x for x, _ in trade.front] == [17.0, 37.0]
    assert [y for _, y in trade.front] == pytest.approx([0.0126, 0.0119])
    assert [line.value for line in trade.near] == [0.0008, 0.21]


def test_a_baselines_label_has_the_digits_that_its_interval_leaves() -> None:
    assert shapes.Baseline("held-out images", -0.001424, 0.0072).text == "held-out images −0.0014"
    assert shapes.Baseline("no network", 1.3734, 0.044).text == "no network 1.373"
    assert shapes.Baseline("held-out images", 0.0008).text == "held-out images 0.0008"


def test_a_fronts_numbers_stand_where_no_dots_are() -> None:
    """Less KID for less NFE: nothing is left of the front and below it."""
    trade = figures.tradeoff(two_objectives())
    assert trade is not None
    assert trade.beyond == (-1, -1)


def narrow() -> Any:
    return matplotlib.rc_context(STYLE | {"figure.figsize": (NARROW, 3.2)})


def test_what_is_off_the_scale_fits_a_phone() -> None:
    """Two baselines in a line ran out of the figure at both ends."""
    far = [Baseline("held-out images", -0.0014), Baseline("class Gaussians, no network", 1.373)]
    dots = [Dot(n, "", float(n), Estimate(0.05)) for n in range(3)]
    with narrow():
        figure = plots.draw_ladder(Ladder(Axis("KID (lower is better)"), dots, [], far))
        figure.draw_without_rendering()
        label = figure.axes[0].xaxis.label.get_window_extent()
    assert label.x0 >= 0
    assert label.x1 <= figure.bbox.x1


def test_a_title_of_two_lines_fits_the_height_of_a_panel() -> None:
    dots = [Dot(n, "", float(n), Estimate(kid, 0.01)) for n, kid in enumerate((0.01, 0.1, 3.0))]
    around_zero = Axis("FID at N = 256 (lower is better)", linear=0.05)
    figure = plots.draw_panels(Panels(around_zero, [Panel(Axis("n"), dots)] * 3))
    figure.draw_without_rendering()
    label = figure.axes[0].yaxis.label.get_window_extent()
    assert label.y0 >= 0
    assert label.y1 <= figure.bbox.y1


def test_ticks_whose_numbers_would_touch_do_not_fit() -> None:
    assert plots.fit([1.0, 3.0], 40)
    assert plots.fit([0.06958, 0.1725, 0.4193], 160)
    assert not plots.fit([0.06958, 0.1725, 0.4193], 70)


@pytest.mark.parametrize(("x", "side"), [(20.0, "left"), (6.0, "right")])
def test_a_baseline_is_named_where_no_dots_are_in_the_way(x: float, side: str) -> None:
    dots = [Dot(0, "", 6.0, Estimate(0.1)), Dot(1, "", 20.0, Estimate(2.0))]
    dots += [Dot(n, "", x, Estimate(1.0 + n / 100)) for n in range(2, 6)]
    data = Scatter(Axis("NFE"), Axis("KID"), dots, [Baseline("no network", 1.0)], [])
    (note,) = plots.draw_scatter(data).axes[0].texts
    assert note.get_horizontalalignment() == side


def test_numbers_of_a_front_do_not_hide_each_other() -> None:
    corners = [(1.0, 1.0), (2.0, 0.5), (2.05, 0.49), (9.0, 0.1)]
    dots = [Dot(n, "", x, Estimate(y), n == 2) for n, (x, y) in enumerate(corners)]
    data = Scatter(Axis("NFE"), Axis("KID"), dots, [], corners)
    named = {note.get_text() for note in plots.draw_scatter(data).axes[0].texts}
    assert named == {"#0", "#2", "#3"}  # 2 is the best
