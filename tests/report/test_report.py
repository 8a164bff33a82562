"""The report layer, on a synthetic record whose every number can be worked out by hand."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.report import (
    answer,
    effects,
    figures,
    formats,
    gallery,
    knobs,
    measurement,
    ranking,
    render,
    sections,
    shapes,
    tables,
)
from ablate.report.blocks import (
    Attachment,
    Block,
    Figure,
    Paragraph,
    Table,
    figures_in,
    numbers,
    pictures_in,
    tables_in,
    words,
)
from ablate.report.names import Estimate, configuration, metric_name, number, text
from ablate.results import Objective, StudyResults, Vocabulary
from tests.support.records import HALF, empty, lost, no_pictures, pictures, png, study, trial


@pytest.fixture(scope="module")
def results() -> StudyResults:
    return study()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return render.write(study(), pictures(folder / "store"), folder / "fashion-start").parent


def two_objectives() -> StudyResults:
    objectives = [Objective("kid", "minimize"), Objective("nfe", "minimize")]
    return study()._replace(objectives=objectives)


def files(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def all_blocks(results: StudyResults, fetch: gallery.Fetch = no_pictures) -> list[Block]:
    made = sections.built(results, sections.Context(fetch))
    return [block for section in made for block in section.blocks]


def all_tables(results: StudyResults) -> dict[str, Table]:
    return {table.name: table for table in tables_in(all_blocks(results))}


def caption_of(results: StudyResults, name: str) -> str:
    (found,) = (each for each in figures_in(all_blocks(results)) if each.name == name)
    return found.caption


def column(table: Table, key: str) -> list[object]:
    index = [c.key for c in table.header].index(key)
    return [row[index] for row in table.rows]


# --- numbers and names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "half", "expected"),
    [
        (0.0421, 0.0173, "0.042 ± 0.017"),
        (0.04213, 0.00173, "0.0421 ± 0.0017"),
        (0.5, 0.0996, "0.50 ± 0.10"),  # rounds up to one digit more
        (23.44, 1.23, "23.4 ± 1.2"),
        (335.2, 12.4, "335 ± 12"),
        (1234.0, 123.0, "1,230 ± 120"),
        (-0.0012, 0.0034, "−0.0012 ± 0.0034"),
        (3.14e-5, 1.2e-6, "(3.14 ± 0.12)e-05"),
        (40.0, 0.0, "40"),
        (0.04213, None, "0.04213"),
        (0.013, 1e-18, "0.013"),  # equal over the seeds, up to rounding
    ],
)
def test_a_value_is_rounded_to_the_second_digit_of_its_interval(
    value: float, half: float | None, expected: str
) -> None:
    assert text(Estimate(value, half)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1200, "1,200"),
        (0.9995, "0.9995"),
        (1.0, "1"),
        (-0.5, "−0.5"),
        (5.86e-4, "0.000586"),
        (123456.7, "123,457"),
        (float("nan"), "nan"),
        (3.1e-6, "3.1e-06"),
    ],
)
def test_numbers_without_interval(value: float, expected: str) -> None:
    assert number(value, 5) == expected


def test_knobs_near_one_keep_their_distance_from_it() -> None:
    assert [text(v) for v in (0.99996, 0.639914, 1.0, 40, "adls")] == (
        ["0.99996", "0.6399", "1", "40", "adls"]
    )


def test_names_are_the_papers(results: StudyResults) -> None:
    assert configuration(results, results.trials[5], knobs.varied(results)) == (
        "adls-consistent, class-gaussian, χ = 0.999, r = 1, L = 2, n = 1, levels = 40"
    )
    assert [metric_name(results, m) for m in ("fid", "flip_rate")] == ["FID", "flip rate"]
    assert text(None) == "–"


def test_labels_and_leaks_are_the_studys(results: StudyResults) -> None:
    """As they were when it was run; names without a label are written by rule."""
    vocabulary = Vocabulary({"kid": "kernel distance"}, frozenset({"lognormal"}))
    other = results._replace(vocabulary=vocabulary)
    assert metric_name(other, "kid") == "kernel distance"
    assert metric_name(other, "nn_pixel_c_t") == "NN pixel C_T"
    assert tables.best(other).header[9].label == "kernel distance ↓"
    assert "the best by kernel distance" in answer.answer(other)[0]
    assert [t.number for t in ranking.contenders(other)[:2]] == [9, 13]
    assert configuration(other, results.trials[2], ["L"]) == "L = 1, leaks data"
    assert configuration(other, results.trials[9], ["init"]) == "forward-data"


def test_values_published_before_0_2_are_shown(results: StudyResults) -> None:
    entry = {"knobs": {"init": "lognormal"}, "metrics": {"kid": 0.02}}
    old = results._replace(spec={**results.spec, "marks": [entry]})
    assert all_tables(old)["published"].rows[0][0] == "lognormal"


# --- tables --------------------------------------------------------------------------------------


def test_the_best_table_ranks_by_the_first_objective_and_shows_what_varies(
    results: StudyResults,
) -> None:
    table = tables.best(results, count=3)
    keys = [c.key for c in table.header]
    assert keys[:9] == ["rank", "trial", "sampler", "init", "chi", "r", "L", "n", "levels"]
    assert keys[9:] == ["kid", "nfe", "seconds"]
    assert [c.label for c in table.header][4] == "χ"
    assert [c.label for c in table.header][9] == "KID ↓"
    assert column(table, "rank") == [1, 2, 3]
    assert column(table, "trial") == [9, 13, 3]
    assert column(table, "init")[0] == "forward-data (leaks data)"
    assert column(table, "chi") == [None, None, 0.995]
    kid = column(table, "kid")[0]
    assert isinstance(kid, Estimate)
    assert kid == pytest.approx((0.0094, HALF * 0.0003))
    # Heun on 10 levels: two evaluations on each of 8 steps, one on the last
    assert column(table, "nfe")[0] == Estimate(17.0, 0.0)
    assert knobs.fixed(results) == {"sigma": 0.8}


def test_a_value_that_some_trials_lack_is_not_said_to_be_everybodys(results: StudyResults) -> None:
    capped = results.trials[0]._replace(params={**results.trials[0].params, "cap": 0.03})
    legend = knobs.legend(results._replace(trials=[capped, *results.trials[1:]]))
    assert set(legend.fixed) == {"σ", "cap"}
    assert legend.partial == {"cap"}


def test_baselines_stand_apart_and_are_not_ranked(results: StudyResults) -> None:
    best, alone = tables.best(results), tables.baselines(results)
    assert best.apart[0] == ("held-out images", Estimate(0.0008), None, None)
    assert "held-out images" not in [row[0] for row in best.rows]
    assert alone.rows[1] == ("class-gaussian, no network", Estimate(0.21), Estimate(221.0))


def test_measures_hold_the_rest_and_fid_comes_with_its_sample_count(results: StudyResults) -> None:
    table = tables.measures(results, count=1)
    labels = [c.label for c in table.header]
    assert labels == ["rank", "trial", "FID at N = 1,000", "clamp rate", "flip rate"]
    assert column(table, "fid") == [pytest.approx((19.4, HALF * 0.3))]


def test_all_trials_are_shown_in_full(results: StudyResults) -> None:
    table = tables.trials(results)
    assert column(table, "trial") == list(range(18))
    assert column(table, "state")[14:] == ["complete", "diverged", "failed", "running"]
    assert column(table, "rank")[9] == 1
    assert column(table, "rank")[15:] == [None] * 3
    assert column(table, "seeds")[:1] == [3]
    assert column(table, "sigma") == [0.8] * 18


def test_troubles_are_named_with_their_reason_and_running_trials_are_none(
    results: StudyResults,
) -> None:
    table = tables.troubles(results)
    assert column(table, "trial") == [15, 16]
    assert "3.1 % of the pixels" in str(column(table, "reason")[0])


def test_a_complete_trial_without_a_finite_objective_is_not_ranked(results: StudyResults) -> None:
    broken = trial(18, {"sampler": "adls"}, [{"kid": float("nan")}])
    changed = results._replace(trials=[broken, *results.trials])
    assert [t.number for t in ranking.ranking(changed)[:2]] == [9, 13]
    assert 18 in column(tables.troubles(changed), "trial")


def test_maximised_objectives_rank_the_other_way(results: StudyResults) -> None:
    flipped = results._replace(objectives=[Objective("kid", "maximize")])
    assert ranking.ranking(flipped)[0].number == 2
    assert tables.best(flipped).header[9].label == "KID ↑"
    assert "better than class-gaussian" not in " ".join(answer.answer(flipped))


def test_a_baseline_within_reach_of_both_intervals_is_indistinguishable(
    results: StudyResults,
) -> None:
    """0.0119 ± 0.00099 against 0.014: apart from the bare number, not from 0.014 ± 0.002."""
    bare = results._replace(baselines={"held-out images": {"kid": 0.014}})
    wide = results._replace(baselines={"held-out images": {"kid": 0.014, "kid.interval": 0.002}})
    assert answer.answer(bare)[1] == "It is better than held-out images (0.014)."
    said = "It is indistinguishable from held-out images (0.0140 ± 0.0020)."
    assert answer.answer(wide)[1] == said


def test_the_pareto_front_leaves_oracles_out() -> None:
    # trial 9 leaks and would beat all; 13 has the least KID of the others, 7 the least NFE
    results = two_objectives()
    assert [t.number for t in ranking.front(results)] == [13, 7]
    assert column(tables.pareto(results), "rank") == [2, 4]


def test_metrics_measured_alike_share_a_column(results: StudyResults) -> None:
    alike = dict.fromkeys(("fid", "recall"), results.protocols["fid"])
    table = measurement.protocols(results._replace(protocols={**results.protocols, **alike}))
    assert [column.label for column in table.header] == ["", "KID", "FID, recall"]


def test_neighbours_have_a_table_of_their_own(results: StudyResults) -> None:
    assert "neighbours" not in all_tables(results)
    trials = [t._replace(metrics={**t.metrics, "nn_feature_c_t": -0.4}) for t in results.trials]
    made = all_tables(results._replace(trials=trials))
    assert "NN feature C_T" in [column.label for column in made["neighbours"].header]
    assert "NN feature C_T" not in [column.label for column in made["measures"].header]


def test_the_best_ones_neighbours_are_shown(results: StudyResults, tmp_path: Path) -> None:
    fetch = pictures(tmp_path / "store")
    assert "neighbours" not in {each.kind for each in pictures_in(all_blocks(results, fetch))}
    trials = [t._replace(metrics={**t.metrics, "nn_feature_c_t": -0.4}) for t in results.trials]
    page = render.write(results._replace(trials=trials), fetch, tmp_path / "r")
    assert (page.parent / "figures" / "neighbours-best.png").is_file()
    html = page.read_text(encoding="utf-8")
    assert "Beside the training images" in html
    assert "nearest to the training set, nearest first" in html


def test_protocols_and_provenance(results: StudyResults) -> None:
    table = measurement.protocols(results)
    assert ("reference count", 10000, 10000) in table.rows
    assert table.rows[-1] == ("subsets", "100 of 500", None)
    made = dict(measurement.provenance(results).rows)
    assert made["hash of the resolved study"] == "b7e2d1c04a9f"
    assert made["commit"] == "0f3c2a9"
    assert made["objectives"] == "KID ↓"


# --- effects -------------------------------------------------------------------------------------


def test_spearman_by_hand() -> None:
    assert effects.spearman([(1, 10), (2, 20), (3, 90)]) == pytest.approx(1)
    assert effects.spearman([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    # ranks (1, 2.5, 2.5, 4) and (1, 3, 2, 4): 4.5/√(4.5 · 5)
    assert effects.spearman([(1, 1), (2, 3), (2, 2), (4, 4)]) == pytest.approx(4.5 / 22.5**0.5)
    assert effects.spearman([(1, 1), (2, 2)]) is None
    assert effects.spearman([(1, 1), (1, 2), (1, 3)]) is None


def test_effects_compare_few_values_and_correlate_numbers(results: StudyResults) -> None:
    rows = {row[0]: row[1:] for row in effects.effects(results).rows}
    assert list(rows) == ["sampler", "init", "χ", "r", "L", "n", "levels"]
    # class-average 0.0318, class-gaussian 0.0157, lognormal (0.142 + 0.128 + 0.119)/3
    assert rows["init"][:4] == (15, "4 kinds", "forward-data (leaks data)", 2)
    assert rows["init"][4] == Estimate(pytest.approx((0.0094 + 0.0151) / 2))
    assert rows["init"][5:7] == ("lognormal", 3)
    assert rows["init"][7] == Estimate(pytest.approx(0.389 / 3))
    assert rows["init"][8] is None
    # r took seven values: no means; L's ranks correlate as 1.5/√(67.5 · 110) over 11 trials
    assert rows["r"][:3] == (11, "0.43 to 1", None)
    assert rows["L"][8] == round(1.5 / (67.5 * 110) ** 0.5, 2) == 0.02


def test_values_show_what_diverged(results: StudyResults) -> None:
    rows = effects.value_means(results).rows
    assert ("sampler", "asams-as-printed", 0, 1, None, None) in rows
    average = next(row for row in rows if row[1] == "class-average")
    assert average[2:5] == (4, 1, Estimate(pytest.approx((0.031 + 0.0245 + 0.0272 + 0.0445) / 4)))
    assert average[5] == pytest.approx((0.0245, HALF * 0.0005))
    assert "r" not in [row[0] for row in rows]


# --- the answer ----------------------------------------------------------------------------------


def test_state(results: StudyResults) -> None:
    expected = "15 of 20 planned trials complete, 1 diverged, 1 failed, 1 running."
    assert answer.state(results) == expected


def test_the_answer_names_the_best_the_baselines_and_the_ties(results: StudyResults) -> None:
    said = answer.answer(results)
    assert said[0] == (
        "Of 13 complete configurations that leak no data the best by KID (lower is better) is "
        "trial 13: pf-heun, class-gaussian, levels = 20, with KID 0.01190 ± 0.00099 "
        "(mean and 95 % interval over 3 seeds)."
    )
    assert said[1] == (
        "It is worse than held-out images (0.0008), and better than "
        "class-gaussian, no network (0.21)."
    )
    # 13, 3, 7 and 5 lie within each other's reach; 1 at 0.0185 does not
    assert "the first 4 configurations cannot be distinguished at this number of seeds" in said[2]
    # 0.0122 less 0.0119, seed by seed: -0.0001, -0.0001, 0.0011 by the rotated offsets
    assert said[3] == "Seed by seed, the best leads by 0.0003 ± 0.0017."
    assert said[4].startswith("Trial 9 (pf-heun, forward-data (leaks data), levels = 10)")


def test_a_clear_winner_is_called_one(results: StudyResults) -> None:
    field = [t for t in results.trials if t.number in (0, 3)]
    said = " ".join(answer.answer(results._replace(trials=field)))
    assert "has an interval that does not overlap" in said
    assert answer.tied(ranking.ranking(results._replace(trials=field)), "kid") == 1


def test_a_baseline_inside_the_interval_is_no_win(results: StudyResults) -> None:
    near = results._replace(baselines={"rival": {"kid": 0.012}})
    assert "It is indistinguishable from rival (0.012)." in answer.answer(near)


def test_only_leaking_trials_still_give_an_answer(results: StudyResults) -> None:
    oracles = results._replace(trials=[t for t in results.trials if t.number in (9, 14)])
    assert "leaks data" in answer.answer(oracles)[0]
    assert [role for role, _ in gallery.gallery(oracles)] == ["best", "worst"]


# --- figures as data -----------------------------------------------------------------------------


def test_the_ladder_names_every_knob_where_there_are_few(results: StudyResults) -> None:
    few = [t._replace(params={"init": t.params["init"], "L": t.number % 4}) for t in results.trials]
    data = figures.ladder(results._replace(trials=few), count=3)
    assert data is not None
    assert all("L = " in dot.label for dot in data.dots)


def test_the_ladder_tells_configurations_apart_where_knobs_are_many(results: StudyResults) -> None:
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


def test_what_was_pruned_is_shown_at_its_last_value(results: StudyResults) -> None:
    settings = {**results.trials[0].params, "init": "gaussian", "chi": 0.99}
    partial = {"kid_n64": 0.9, "kid_n128": 0.5, "fid_n128": 9.0}
    pruned = lost(20, "pruned", settings, "worse")._replace(metrics=partial)
    shown = results._replace(trials=[*results.trials, pruned])
    kinds, sweeps = figures.choices(shown), figures.sweeps(shown)
    assert kinds is not None
    assert sweeps is not None
    (init,) = (panel for panel in kinds.panels if panel.axis.label == "init")
    assert init.kinds[-1] == "gaussian"  # last, for it has no complete trial
    assert len(init.means) == len(init.kinds) - 1
    last = float(len(init.kinds) - 1)
    assert init.dots[-1] == shapes.Dot(20, "gaussian", last, Estimate(0.5), pruned=True)
    (chi,) = (panel for panel in sweeps.panels if panel.axis.label == "χ")
    assert (chi.dots[-1].x, chi.dots[-1].y.value) == (0.99, 0.5)
    assert caption_of(shown, "sweeps").endswith("Crosses: pruned, at their last value.")
    assert "Crosses" not in caption_of(results, "sweeps")
    assert 20 not in [dot.trial for dot in figures.ladder(shown, count=99).dots]  # not ranked


def test_cost_and_tradeoff(results: StudyResults) -> None:
    cost = figures.against_cost(results)
    assert cost is not None
    assert {dot.x for dot in cost.dots if dot.label == "pf-heun"} == {17.0, 37.0}
    assert figures.tradeoff(results) is None
    both = two_objectives()
    assert figures.against_cost(both) is None  # the same figure twice
    trade = figures.tradeoff(both)
    assert trade is not None
    assert trade.front == [(17.0, pytest.approx(0.0126)), (37.0, pytest.approx(0.0119))]
    assert [line.value for line in trade.near] == [0.0008, 0.21]


def test_an_axis_is_logarithmic_only_if_positive_and_wide() -> None:
    assert shapes.is_wide([0.01, 0.2])
    assert not shapes.is_wide([0.01, 0.02])
    assert not shapes.is_wide([-0.001, 0.2])
    assert not shapes.is_wide([])


# --- formats -------------------------------------------------------------------------------------

AWKWARD = Table(
    "awkward",
    "100 %\nof it",
    [words("name", "χ"), numbers("L"), numbers("kid", "KID ↓")],
    [(r"a_b & 5% #1 {x} ~ ^ \ $", 3, Estimate(0.0421, 0.0173)), ("a | b\n<i>", None, None)],
    [("no_network", Estimate(0.2))],
)


def test_latex_is_escaped_and_every_line_has_its_cells() -> None:
    tex = formats.to_tex(AWKWARD)
    escaped = r"a\_b \& 5\% \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} \$"
    assert rf"{escaped} & 3 & 0.042 $\pm$ 0.017 \\" in tex
    assert r"$\chi$ & $L$ & KID $\downarrow$ \\" in tex
    assert r"a $|$ b $<$i$>$ & -- & -- \\" in tex
    assert r"\multicolumn{2}{l}{\emph{no\_network}} & 0.2 \\" in tex
    assert tex.splitlines()[0] == "% 100 % of it"
    assert tex.count(r"\midrule") == 2


def test_csv_keeps_full_precision_and_half_widths_and_no_baselines() -> None:
    rows = list(csv.reader(io.StringIO(formats.to_csv(AWKWARD))))
    assert rows[0] == ["name", "L", "kid", "kid_half_width"]
    assert rows[1][1:] == ["3", "0.0421", "0.0173"]
    assert rows[2] == ["a | b\n<i>", "", "", ""]
    assert len(rows) == 3


def test_markdown_stays_on_its_lines() -> None:
    lines = formats.to_md(AWKWARD).splitlines()
    assert lines[1] == "| --- | ---: | ---: |"
    assert lines[3] == r"| a \| b \<i> | – | – |"
    assert lines[4] == r"| *no\_network* |  | 0.2 |"


# --- the whole -----------------------------------------------------------------------------------


class Links(HTMLParser):
    """Every src and href of a page, and the tags left open."""

    VOID = frozenset({"meta", "img", "link", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_but_itself(report: Path) -> None:
    html = (report / "index.html").read_text(encoding="utf-8")
    page = Links(html)
    assert not page.open
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert "url(" not in html
    elsewhere = {link for link in page.links if not link.startswith("data:image/")}
    assert elsewhere == {"tables/trials.csv", "tables/", "figures/"}
    assert sum(link.startswith("data:image/svg+xml") for link in page.links) == 4
    assert sum(link.startswith("data:image/png") for link in page.links) == 6


def test_the_folder_holds_every_table_and_figure(report: Path) -> None:
    written = set(files(report))
    for name in all_tables(study()):
        assert {f"tables/{name}.csv", f"tables/{name}.tex"} <= written
    for name in ("best", "choices", "sweeps", "cost"):
        assert {f"figures/{name}.png", f"figures/{name}.svg"} <= written
    assert {"figures/samples-worst.png", "figures/trajectory-best.png"} <= written
    linked = (report / "report.md").read_text(encoding="utf-8").split("](")[1:]
    assert all(link.split(")")[0] in written for link in linked)


def test_the_page_says_what_matters(report: Path) -> None:
    html = (report / "index.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    for phrase in (
        "Which start and which sampler",
        "cannot be distinguished at this number of seeds",
        "15 of 20 planned trials complete",
        "annealing: the factor on the noise coefficient",
        'forward-data <span class="leak">leaks data</span>',
        "3.1 % of the pixels changed sign",
        "0.9 GB_free &amp; none",
        "sha256:4f1c09ab",
        "b7e2d1c04a9f",
    ):
        assert phrase in html


def test_names_from_a_record_cannot_break_the_page(tmp_path: Path) -> None:
    nasty = empty()._replace(name="<script>x</script>", question="a <b> & 'c'")
    html = render.write(nasty, no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert "script" not in Links(html).tags
    assert "a &lt;b&gt; &amp;" in html


def test_the_same_record_gives_the_same_bytes_and_nothing_heavy_is_imported(
    report: Path, tmp_path: Path
) -> None:
    code = (
        "import sys, pathlib, ablate.report.render as render\n"
        "heavy = {'torch', 'optuna', 'mlflow', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from tests.support import records\n"
        "store = records.pictures(pathlib.Path(sys.argv[1]) / 'store')\n"
        "render.write(records.study(), store, pathlib.Path(sys.argv[1]) / 'again')\n"
    )
    surroundings = os.environ | {"PYTHONHASHSEED": "1", "MPLBACKEND": "svg"}
    here = Path(__file__).parents[1]
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, cwd=here, env=surroundings
    )
    assert files(tmp_path / "again") == files(report)


def test_a_study_without_complete_trials_still_has_a_report(tmp_path: Path) -> None:
    html = render.write(empty(), no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert "No configuration is complete yet" in html
    assert "0 of 20 planned trials complete, 1 diverged, 1 failed, 1 running." in html
    assert "held-out images" in html
    assert "What each knob does" not in html
    bare = empty()._replace(trials=[], baselines={}, protocols={}, tags={})
    assert render.write(bare, no_pictures, tmp_path / "bare").is_file()


def test_one_seed_has_no_interval_and_says_so(tmp_path: Path) -> None:
    results = study(seeds=1)
    assert "KID 0.0119 (one seed: no interval)" in answer.answer(results)[0]
    assert "may or may not be behind (one seed: no interval)" in answer.answer(results)[2]
    html = render.write(results, no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert "One seed: no interval." in html
    assert "±" not in html
    assert "kid_half_width" not in (tmp_path / "r/tables/trials.csv").read_text()


def test_missing_pictures_and_two_objectives(tmp_path: Path) -> None:
    page = render.write(two_objectives(), no_pictures, tmp_path / "r")
    html = page.read_text(encoding="utf-8")
    assert html.count("No picture in the store.") == 6
    assert "data:image/png" not in html
    assert "no picture in the store" in (tmp_path / "r/report.md").read_text(encoding="utf-8")
    assert "Trials on the Pareto front of KID and NFE: 2." in html
    assert (tmp_path / "r/figures/pareto.svg").is_file()
    assert not (tmp_path / "r/figures/cost.svg").exists()
    assert (tmp_path / "r/tables/pareto.tex").is_file()


def test_a_report_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "r"
    render.write(empty(), no_pictures, folder)
    (folder / "figures" / "stale.png").write_bytes(b"")
    before = files(folder)

    def killed(run_id: str, name: str) -> Path:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render.write(study(), killed, folder)
    assert files(folder) == before
    render.write(empty(), no_pictures, folder)
    assert "figures/stale.png" not in files(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["r"]


def test_a_folder_that_is_no_report_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds thesis\.tex.*name another folder"):
        render.write(empty(), no_pictures, tmp_path)
    with pytest.raises(UserError, match="is a file"):
        render.write(empty(), no_pictures, tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_importance_has_a_table_where_it_is_known(results: StudyResults) -> None:
    assert "importance" not in all_tables(results)
    shares = {"kid": {"fANOVA": {"chi": 0.7, "r": 0.3}, "PED-ANOVA": {"r": 1.0}}}
    made = all_tables(results._replace(importance=shares))["importance"]
    assert [column.label for column in made.header] == ["knob", "KID, fANOVA", "KID, PED-ANOVA"]
    assert sorted(made.rows, key=str) == sorted([("r", 0.3, 1.0), ("χ", 0.7, None)], key=str)


def test_what_others_published_stands_beside_ours(results: StudyResults) -> None:
    best = ranking.contenders(results)[0]
    entry = {"knobs": {"init": best.params["init"]}, "metrics": {"fid": 21.2, "kid": 0.02}}
    other = {"knobs": {"init": "none of ours"}, "metrics": {"kid": 0.03}}
    made = all_tables(results._replace(spec={**results.spec, "published": [entry, other]}))
    first, second = made["published"].rows
    assert first[:2] == (best.params["init"], best.number)
    assert 0.02 in first
    assert best.metrics["kid"] in [getattr(item, "value", None) for item in first]
    assert second == ("none of ours", None, None, None, 0.03, None)
    assert "Not to be ranked together" in made["published"].caption


def test_what_breaks_a_constraint_is_not_ranked_and_says_so(results: StudyResults) -> None:
    best = results.ranked()[0]
    bound = {"constraints": {"kid": best.metrics["kid"] - 1e-6}}
    bounded = results._replace(spec={**results.spec, **bound})
    assert all_tables(bounded)["best"].rows == []
    reasons = [str(row[-1]) for row in all_tables(bounded)["troubles"].rows]
    assert sum(reason.startswith("KID ") and " exceeds " in reason for reason in reasons) >= 1


def test_metrics_of_a_rung_are_no_columns(results: StudyResults) -> None:
    trials = [t._replace(metrics={**t.metrics, "kid_n64": 1.0}) for t in results.trials]
    made = all_tables(results._replace(trials=trials))
    assert "kid_n64" not in [column.key for column in made["measures"].header]


# --- sections ------------------------------------------------------------------------------------


@pytest.fixture
def toy_section() -> Iterator[sections.Section]:
    """What another package's section may be: text, a table and a figure that it drew itself."""

    def build(results: StudyResults, context: sections.Context) -> list[Block]:
        header = [words("seed_use", "use of seeds"), numbers("count")]
        drawn = shapes.Drawn(b"<svg xmlns='http://www.w3.org/2000/svg'/>", png(4, 4, 0))
        return [
            Paragraph(f"{results.name} & its seeds."),
            Table("seeds", "Seeds of the study.", header, [("drawn", 3)], bold=0),
            Figure("dots", "Seeds, drawn elsewhere.", drawn),
            Attachment(Table("aside", "Not shown.", header, [("kept", 4)])),
        ]

    yield sections.SECTIONS.add(sections.Section("seeds", "What the seeds were", build))
    sections.SECTIONS.remove("seeds")


def test_a_section_is_one_record(toy_section: sections.Section, tmp_path: Path) -> None:
    """Its heading, text, table and figure are in the page, the Markdown file and the folders."""
    page = render.write(study(), no_pictures, tmp_path / "r")
    html, markdown = (
        (tmp_path / "r" / name).read_text(encoding="utf-8") for name in ("index.html", "report.md")
    )
    assert page == tmp_path / "r" / "index.html"
    assert f"<h2>{toy_section.title}</h2>" in html
    assert f"## {toy_section.title}\n" in markdown
    assert "<p>fashion-start &amp; its seeds.</p>" in html
    assert '<tr class="first"><td class="left">drawn</td><td>3</td></tr>' in html
    assert "<b>Table 6.</b> Seeds of the study." in html  # after the five of our first sections
    assert "<b>Figure 5.</b> Seeds, drawn elsewhere." in html
    assert "| drawn | 3 |" in markdown
    assert "![Seeds, drawn elsewhere.](figures/dots.png)" in markdown
    assert "Not shown." not in html + markdown
    assert (tmp_path / "r/tables/seeds.csv").read_text() == "seed_use,count\ndrawn,3\n"
    assert (tmp_path / "r/tables/aside.csv").read_text() == "seed_use,count\nkept,4\n"
    written = set(files(tmp_path / "r"))
    assert {"tables/seeds.tex", "figures/dots.svg", "figures/dots.png"} <= written


def test_sections_of_others_come_before_the_last_of_ours(toy_section: sections.Section) -> None:
    titles = [each.title for each in sections.built(study(), sections.Context(no_pictures))]
    assert titles == [
        "The best configurations",
        "What each knob does",
        "What it costs",
        "What it looks like",
        "What is not ranked, and why",
        "What the seeds were",
        "How this was measured",
    ]


def test_a_section_without_blocks_has_no_heading(tmp_path: Path) -> None:
    section = sections.SECTIONS.add(sections.Section("void", "Nothing here", lambda *_: None))
    try:
        html = render.write(empty(), no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    finally:
        sections.SECTIONS.remove("void")
    assert section.title not in html


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([Table("best", "", [words("a")], [])], "two report sections write tables/best: rename"),
        (["text"], "report section 'bad' returns 'text', which is no block; blocks are Table,"),
    ],
)
def test_a_wrong_section_is_an_error(blocks: list[Block], message: str) -> None:
    sections.SECTIONS.add(sections.Section("bad", "Bad", lambda *_: blocks))
    try:
        with pytest.raises(UserError, match=message):
            sections.built(empty(), sections.Context(no_pictures))
    finally:
        sections.SECTIONS.remove("bad")
