"""Configurations across datasets, on runs whose gaps can be worked out by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ablate.report import compare
from ablate.report.drawing import drawn
from ablate.report.evidence import across
from ablate.report.shapes import Profiles
from ablate.results import StudyResults, Value
from tests.report.reading import column
from tests.support.records import PROTOCOL, study, trial

KNOBS: list[dict[str, Value]] = [{"init": "gaussian"}, {"init": "lognormal"}, {"init": "extra"}]


def of(dataset: str, *kids: list[float], real: float = 0.0, family: str = "init") -> StudyResults:
    """A grid: trial k has KNOBS[k] and these KIDs, one a seed, and held-out images have `real`."""
    trials = [
        trial(number, KNOBS[number], [{"kid": kid} for kid in seeds])
        for number, seeds in enumerate(kids)
    ]
    protocol = PROTOCOL | {"reference": f"{dataset}/test"}
    return study()._replace(
        name=f"{dataset}-{family}",
        budget="quick",
        protocols={"kid": protocol},
        baselines={"held-out images - only 256 in one set": {"kid": real}},
        trials=trials,
    )


RECORDS = [
    of("digits", [1.0, 1.0, 1.0], [0.1, 0.3, 0.2]),
    of("fashion", [3.0, 3.2, 2.8], [1.4, 1.0, 1.2], [9.0, 9.0, 9.0], real=1.0),
]


def test_a_gap_is_zero_for_real_images_and_one_for_the_base() -> None:
    """The base is the first trial, the third is not in both studies. (1.4 - 1) / (3 - 1) = 0.2."""
    found = across.across(RECORDS)
    assert found is not None
    assert found.base == "gaussian"
    assert (found.datasets, found.without) == (["digits", "fashion"], [])
    assert found.gaps.keys() == {"gaussian", "lognormal"}
    assert found.gaps["gaussian"][1] == pytest.approx([1.0, 1.1, 0.9])
    assert found.gaps["lognormal"][0] == pytest.approx([0.1, 0.3, 0.2])
    assert found.gaps["lognormal"][1] == pytest.approx([0.2, 0.0, 0.1])


def test_a_dataset_whose_base_is_as_real_images_has_no_gap() -> None:
    """The base of the third study varies by more than it is above held-out images."""
    noisy = of("mnist", [-0.1, 0.1, 0.2], [0.1, 0.1, 0.1])
    found = across.across([*RECORDS, noisy])
    assert found is not None
    assert (found.datasets, found.without) == (["digits", "fashion"], ["mnist"])
    caption = across.blocks([*RECORDS, noisy])[0].caption  # type: ignore[union-attr]
    assert "On mnist it cannot be told from these" in caption
    assert across.across([RECORDS[0], noisy]) is None


def test_the_table_has_interquartile_means_best_first() -> None:
    """Of six runs one is cut at each end: (0.1 + 0.1 + 0.2 + 0.2) / 4."""
    found = across.across(RECORDS)
    assert found is not None
    table = across.table(found, ["lognormal", "gaussian"])
    assert column(table, "iqm") == pytest.approx([0.15, 1.0])
    assert column(table, "digits") == pytest.approx([0.2, 1.0])
    assert column(table, "fashion") == pytest.approx([0.1, 1.0])


def test_the_bootstrap_draws_runs_again_within_each_dataset() -> None:
    """Of two datasets with runs 0 and 1 a draw has k ones of 4, and the middle two have the mean 0
    for k < 2 and 1 for k > 2, each with probability 5/16: more than 0.025. Datasets are never
    drawn twice: with equal runs in each nothing varies."""
    assert across.interval([[0.0, 1.0], [1.0, 0.0]]) == (0.0, 1.0)
    assert across.interval([[0.0, 0.0], [1.0, 1.0]]) == (0.5, 0.5)
    assert across.interval(RUNS) == across.interval(RUNS)


RUNS = [[0.1, 0.2, 0.4], [0.3, 0.3, 0.9]]


def test_a_profile_is_the_share_of_runs_up_to_a_gap() -> None:
    """A gap of 0 stands at the left edge, all lines end at the largest one."""
    found = across.across(RECORDS)
    assert found is not None
    data = across.profiles(found, ["lognormal", "gaussian"])
    first, second = data.lines
    assert [share for _, share in first.steps] == pytest.approx(
        [0, *(k / 6 for k in range(1, 7)), 1]
    )
    assert [gap for gap, _ in first.steps] == pytest.approx(
        [across.LEAST, across.LEAST, 0.1, 0.1, 0.2, 0.2, 0.3, 1.1]
    )
    assert second.steps[-1] == pytest.approx((1.1, 1))
    images = drawn(data)
    assert images.svg.count(b"<path") > 2
    assert images.narrow


def test_many_configurations_are_cut_to_the_best_and_the_worst() -> None:
    gaps = {f"c{k}": [[k / 10], [k / 10]] for k in range(12)}
    data = across.profiles(across.Across("KID", "c11", ["a", "b"], gaps, []), list(gaps))
    assert isinstance(data, Profiles)
    assert [line.label for line in data.lines] == [*(f"c{k}" for k in range(7)), "c11"]


def test_settings_of_searches_are_matched_by_where_they_come_from() -> None:
    """Trial 0 is a setting with a name, trial 1 what theory predicts, trial 2 what was found."""
    spec = {"method": "law", "first": [{}], "confirm": {"named": {"the paper's setting": 0}}}
    kids = [0.5, 0.5], [0.2, 0.2], [0.1, 0.1]
    records = [of(name, *kids, family="adls")._replace(spec=spec) for name in ("a", "b")]
    found = across.across(records)
    assert found is not None
    assert found.gaps.keys() == {
        "the paper's setting",
        "what theory predicts",
        "the best that a search found",
    }


def test_there_is_nothing_without_baselines_or_without_two_shared_configurations() -> None:
    bare = RECORDS[0]._replace(baselines={})
    assert across.blocks([bare, RECORDS[1]]) == []
    assert across.blocks([of("digits", [0.1]), RECORDS[1]]) == []


def test_the_first_sentence_says_which_leaves_least() -> None:
    assert across.sentence(RECORDS).startswith(
        "Over 2 datasets the least is left by lognormal: 0.15 of how far gaussian is from held-out"
        " images by KID (interquartile mean over seeds and datasets, 95 %: "
    )
    assert across.sentence([RECORDS[0], of("fashion", [0.1])]) == ""


def test_a_comparison_has_a_section_for_each_family_of_several_datasets(tmp_path: Path) -> None:
    more = [of(name, [0.2], [0.1], family="vegbm") for name in ("digits", "fashion")]
    alone = of("digits", [0.2], [0.1], family="sigma")
    page = compare.write_comparison([*RECORDS, *more, alone], tmp_path)
    html = page.read_text(encoding="utf-8")
    assert "Across datasets: init" in html
    assert "Over 2 datasets the least is left by lognormal" in html
    assert "Across datasets: vegbm" in html
    assert "Across datasets: sigma" not in html
    with (page.parent / "tables" / "across-init.csv").open(encoding="utf-8") as rows:
        found = list(csv.DictReader(rows))
    assert [row["configuration"] for row in found] == ["lognormal", "gaussian"]
    assert (page.parent / "figures" / "profiles-vegbm.svg").is_file()
