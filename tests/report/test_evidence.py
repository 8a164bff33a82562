"""The evidence: differences, the search's history, the law, pictures, the paper."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ablate.generate.coordinates import law_step
from ablate.report import first_screen, sections
from ablate.report.blocks import Figure, Paragraph
from ablate.report.evidence import (
    against,
    beside_the_paper,
    exchange,
    importance,
    law,
    same_noise,
    search,
)
from ablate.report.names import Estimate
from ablate.report.paired import searched_group
from ablate.report.ranking import contenders
from ablate.results import IMAGES, Cell, StudyResults, Value
from tests.support.records import PROTOCOL, empty, lost, no_pictures, study, trial

LAW: dict[str, Any] = {"method": "law", "first": [{}], "samples": 100, "seeds": [0, 1]}


def forest_of(results: StudyResults) -> Any:
    return against.forest(results, searched_group(results), contenders(results))


def test_the_forest_has_differences_from_the_named_setting() -> None:
    named = {"confirm": {"named": {"the paper's setting": 0}}, **LAW}
    data = forest_of(study()._replace(spec=named))
    first = data.dots[0]
    assert first.trial == 13
    assert first.best
    assert first.y.value == pytest.approx(0.0119 - 0.031)
    assert first.y.half is not None
    assert 0 not in [dot.trial for dot in data.dots]
    assert data.near[0].value == 0.0


def test_no_difference_has_a_place_on_the_axis_of_the_forest() -> None:
    """All are worse than the first, by differences of several sizes: no logarithmic axis."""
    cells = [[{"kid": kid}, {"kid": 1.0001 * kid}] for kid in (1.0, 1.1, 3.0, 50.0)]
    trials = [trial(n, {"L": n}, each) for n, each in enumerate(cells)]
    data = forest_of(study()._replace(trials=trials))
    assert all(dot.y.value > 0 for dot in data.dots)
    assert not data.axis.log
    assert data.axis.linear > 0


def test_without_intervals_there_is_no_forest() -> None:
    assert forest_of(study(seeds=1)) is None
    assert against.blocks(empty()) == []


def test_rliables_definitions_by_hand() -> None:
    """Of 2 × 2 pairs the first wins two, and ties once."""
    assert against.improvement([1.0, 3.0], [3.0, 2.0], 1) == (1 + 1 + 0.5 + 0) / 4
    assert against.improvement([1.0, 3.0], [3.0, 2.0], -1) == (0 + 0 + 0.5 + 1) / 4
    assert against.iqm([100.0, 1.0, 2.0, 3.0, -50.0]) == 2.0  # one cut at each end
    assert against.iqm([1.0, 2.0, 6.0]) == 3.0  # fewer than four: none


def pruned_search() -> StudyResults:
    """A search of three complete trials and one that ended at 40 samples of its first seed."""
    cells = [
        [{"kid": kid, "nfe": 10.0, "samples": 100.0, "seconds": 30.0}] * 2
        for kid in (0.3, 0.1, 0.2)
    ]
    trials = [trial(n, {"chi": 0.995, "r": 0.5 + n / 10}, each) for n, each in enumerate(cells)]
    ended = lost(3, "pruned", {"chi": 0.9995, "r": 0.9}, "worse")
    own = {"kid": 0.9, "nfe": 10.0, "samples": 40.0, "seconds": 6.0}
    ended = ended._replace(metrics=own, cells=[Cell("run-3-0", 0, "pruned", own)])
    return study()._replace(trials=[*trials, ended], spec=LAW)


def test_pruned_trials_are_rows_like_others() -> None:
    table = search.history(pruned_search())
    keys = [column.key for column in table.header]
    row = dict(zip(keys, table.rows[3], strict=True))
    assert (row["state"], row["samples"], row["reason"]) == ("pruned", 40, "worse")
    assert row["value"] == Estimate(0.9)
    best = keys.index("best_so_far")
    assert [each[best] for each in table.rows] == [0.3, 0.1, 0.1, 0.1]


def test_what_was_spent_and_what_pruning_saved() -> None:
    """3 trials of 2 × 100 samples and one of 40, at 10 evaluations; 160 samples were not drawn."""
    results = pruned_search()
    assert search.saved(results) == 160 * 10
    text = search.spending(results)
    assert "640 samples were drawn for 4 trials, with 6,400 evaluations" in text
    assert "saved 1,600 evaluations, 20 %" in text
    assert "3.1 minutes" in text
    assert search.spending(empty()) == ""


def test_the_curve_joins_the_best_so_far() -> None:
    data = search.progress(pruned_search())
    assert data is not None
    assert data.front == [(0.0, 0.3), (1.0, 0.3), (1.0, 0.1), (3.0, 0.1)]
    assert [dot.trial for dot in data.dots if dot.pruned] == [3]


@pytest.mark.parametrize("chi", [0.99, 0.995, 0.9995, 1.0])
def test_the_law_is_that_of_the_search(chi: float) -> None:
    """Trials with rho = 1 stand on the line."""
    assert law.law(chi) == pytest.approx(law_step(chi), rel=1e-9)


def test_what_a_knob_buys_and_costs() -> None:
    """By chi, in the order of the ranking; few-step trials have none."""
    found = study()._replace(spec={"answers": "fid vs kid over chi"})
    data = exchange.exchange(found, "fid", "kid", "chi")
    assert data is not None
    assert [dot.trial for dot in data.dots][:3] == [3, 5, 1]
    assert data.dots[1].label == "χ = 0.999"
    assert [data.dots[1].x, data.dots[1].y.value] == pytest.approx([0.013, 23.0])
    (figure,) = exchange.blocks(found)
    assert isinstance(figure, Figure)
    assert figure.caption.startswith("FID against KID of every complete configuration, by its χ")
    assert exchange.blocks(study()) == []


def test_the_map_has_pruned_trials_and_the_law() -> None:
    data = law.law_map(pruned_search())
    assert data is not None
    places = [(round(dot.x, 6), dot.r, dot.pruned) for dot in data.dots]
    assert {(0.005, 0.7, False), (0.0005, 0.9, True)} < {*places}
    values = [dot.value for dot in data.dots]
    assert values == sorted(values, reverse=True)  # the best is drawn last and lies on top
    assert [dot.trial for dot in data.dots if dot.best] == [1]
    assert all(0.5 < r <= 1 for _, r in data.law)
    assert law.law_map(empty()) is None


def test_a_map_of_fewer_than_four_places_is_left_out() -> None:
    """Every trial on the law, at one of two annealings: two dots, which hide all others."""
    cells = [{"kid": 0.1}, {"kid": 0.2}]
    trials = [trial(n, {"chi": (1.0, 0.995)[n % 2], "r": "law", "n": n}, cells) for n in range(8)]
    assert law.law_map(study()._replace(trials=trials)) is None


def stored(folder: Path, without: str = "run-13-") -> Callable[[str, str], Path]:
    """A store of eight grey images of 8 × 8 for every run but those of one trial."""

    def fetch(run_id: str, name: str) -> Path:
        if name != IMAGES or run_id.startswith(without):
            raise FileNotFoundError(name)
        path = folder / f"{run_id}.npz"
        images = np.full((64, 1, 8, 8), zlib.crc32(run_id.encode()) % 256, dtype=np.uint8)
        np.savez_compressed(path, images=images)
        return path

    return fetch


def test_rows_of_the_same_noise_are_large_enough_and_never_empty(tmp_path: Path) -> None:
    groups = same_noise.pictures(study(), stored(tmp_path))
    across = groups[0].pictures
    assert [each.caption.split(",")[0] for each in across] == ["Median", "Worst"]  # no best: lost
    assert all(each.png is not None for group in groups for each in group.pictures)
    assert len({each.name for group in groups for each in group.pictures}) == sum(
        len(group.pictures) for group in groups
    )
    header = across[0].png or b""
    width, height = (int.from_bytes(header[at : at + 4], "big") for at in (16, 20))
    assert height == same_noise.LEAST
    assert width == 8 * 64 + 7 * same_noise.GAP


def test_rows_along_a_knob_differ_in_nothing_else(tmp_path: Path) -> None:
    """L = 2 and 3 occur only with another chi, r or start: no effect of L can be seen."""
    assert list(same_noise.alone(study(), "L")) == []
    assert set(same_noise.alone(study(), "levels")) == {10, 20}
    starts = same_noise.alone(study(), "init")
    assert {value: trial.number for value, trial in starts.items()} == {
        "class-gaussian": 13,
        "lognormal": 10,
    }
    (group,) = (
        each
        for each in same_noise.pictures(study(), stored(tmp_path, without="run-9-"))
        if each.title == "Along init alone: pf-heun, levels = 20"
    )
    assert [each.label.split(":")[0] for each in group.pictures] == ["class-gaussian", "lognormal"]


def test_what_a_study_asks_about_is_shown_though_other_knobs_change_with_it(
    tmp_path: Path,
) -> None:
    asks = study()._replace(spec={"answers": "L"})
    titles = [group.title for group in same_noise.pictures(asks, stored(tmp_path))]
    assert titles[1] == "Each L at its best setting of the others, which differ, too"


def test_many_values_of_a_knob_are_shown_from_end_to_end() -> None:
    trials = [trial(n, {"chi": 0.99 + n / 1000}, [{"kid": 1.0 + n}]) for n in range(9)]
    found = same_noise.alone(study()._replace(trials=trials), "chi")
    assert [shown.number for shown in found.values()] == [0, 2, 4, 6, 8]


def test_a_png_holds_its_pixels() -> None:
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    data = same_noise.png_of(image)
    start = data.index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompress(data[start:]), np.uint8).reshape(2, 10)
    assert np.array_equal(rows[:, 1:].reshape(2, 3, 3), image)


def of_fashion() -> StudyResults:
    more: dict[str, Value] = {"reference": "fashion/test", "seeds": 3}
    return study()._replace(protocols={"kid": PROTOCOL | more}, spec={"search": {"chi": {}}})


def test_the_papers_rows_stand_beside_ours() -> None:
    """No trial has n = 0 and the paper's sampler, so no row of Table 1 has a counterpart."""
    tables = [table.name for table in beside_the_paper.blocks(of_fashion())]  # type: ignore[union-attr]
    assert tables == ["paper_tuned", "paper_table_2"]
    results = of_fashion()
    mine: dict[str, Value] = {"sampler": "adls", "init": "class-average", "n": 0}
    results.trials.append(trial(40, mine, [{"kid": 0.5, "fid": 60.0}] * 2))
    first = beside_the_paper.table_1(results, "fashion").rows[0]
    assert first[:5] == ("adls", "class-average", 0, 40, 21.2460)
    assert first[5] == Estimate(0.0233, 0.0007)
    found = {table.name: table for table in beside_the_paper.blocks(results)}  # type: ignore[union-attr]
    assert [row[3] for row in found["paper_table_1"].rows] == [40]  # type: ignore[union-attr]
    asked = results._replace(spec=results.spec | {"answers": "published"})
    found = {table.name: table for table in beside_the_paper.blocks(asked)}  # type: ignore[union-attr]
    assert len(found["paper_table_1"].rows) > 1  # type: ignore[union-attr]
    coloured = beside_the_paper.table_2("cifar10")  # nobody computed the means of its data
    assert len(coloured.header) == len(coloured.rows[0]) == 3
    assert beside_the_paper.blocks(study()) == []


def test_disagreeing_weights_get_a_sentence() -> None:
    shares = {"kid": {"fANOVA": {"chi": 0.7, "r": 0.3}, "PED-ANOVA": {"r": 1.0}}}
    (said,) = importance.blocks(study()._replace(importance=shares))
    assert isinstance(said, Paragraph)
    assert "over the whole space is χ (fANOVA)" in said.text
    shares["kid"]["PED-ANOVA"] = {"chi": 0.9, "r": 0.1}
    assert importance.blocks(study()._replace(importance=shares)) == []
    pairs = {"fANOVA pairs": {"chi and r": 0.2}, "fANOVA pairs error": {"chi and r": 0.1}}
    table = importance.pairs(study()._replace(importance={"kid": pairs}))
    assert table.rows == [("KID", "χ and r", Estimate(0.2, 0.1))]


def test_the_first_screen() -> None:
    tags = {"began": "2026-11-18 20:15:03 UTC", "ended": "2026-11-18 22:20:00 UTC", "device": "cpu"}
    found = dict(first_screen.facts(study()._replace(tags=tags)))
    assert found == {
        "budget": "laptop",
        "samples": "1,000 × 3 seeds",
        "extractor": "small-classifier",
        "date": "2026-11-18",
        "duration": "2 h 4 min",
        "device": "cpu",
        "run it again": "ablate study fashion-start --budget laptop"
        " && ablate report fashion-start --budget laptop",
    }
    assert "date" not in dict(first_screen.facts(study()))


@pytest.mark.parametrize(
    ("at_work", "said"),
    [(800.0, "13 min of work in 2 h 4 min"), (6000.0, "2 h 4 min"), (0.0, "2 h 4 min")],
)
def test_the_duration_of_an_interrupted_study_says_how_much_of_it_was_work(
    at_work: float, said: str
) -> None:
    tags = {"began": "2026-11-18 20:15:03 UTC", "ended": "2026-11-18 22:20:00 UTC"}
    results = study()._replace(tags=tags, at_work=at_work)
    assert dict(first_screen.facts(results))["duration"] == said


def test_the_forest_of_a_frontier_is_against_the_best() -> None:
    """The first of a grid is only its cheapest: beside it all others are alike."""
    found = study()._replace(spec={"answers": "kid per nfe"})
    field = contenders(found)
    assert against.reference(found, field) is field[0]
    figure, _ = against.blocks(found)
    assert isinstance(figure, Figure)
    assert figure.caption.endswith("it is the best.")
    assert "ringed" not in figure.caption


def test_the_paper_comes_first_where_a_study_asks_for_it() -> None:
    def titles(results: StudyResults) -> list[str]:
        return [each.title for each in sections.built(results, sections.Context(no_pictures))]

    assert titles(study()._replace(spec={"answers": "published"}))[0] == "Beside the paper"
    assert titles(study())[0] == "What each step does"


def test_work_beside_drawing_is_said() -> None:
    results = pruned_search()
    assert "of work" not in search.spending(results)
    assert "of drawing, with measuring 10.0 minutes of work." in search.spending(
        results._replace(at_work=600.0)
    )
