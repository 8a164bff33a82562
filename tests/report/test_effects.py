"""The effect of each knob, by hand."""

from __future__ import annotations

import pytest

from ablate.report import effects
from ablate.report.names import Estimate, Item
from ablate.results import StudyResults
from tests.report.reading import all_tables
from tests.support.records import HALF


def bare(item: Item) -> float:
    """The value of an estimate without an interval."""
    assert isinstance(item, Estimate)
    assert item.half is None
    return item.value


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
    assert bare(rows["init"][4]) == pytest.approx((0.0094 + 0.0151) / 2)
    assert rows["init"][5:7] == ("lognormal", 3)
    assert bare(rows["init"][7]) == pytest.approx(0.389 / 3)
    assert rows["init"][8] is None
    # r took seven values: no means; L's ranks correlate as 1.5/√(67.5 · 110) over 11 trials
    assert rows["r"][:3] == (11, "0.43 to 1", None)
    assert rows["L"][8] == round(1.5 / (67.5 * 110) ** 0.5, 2) == 0.02


def test_values_show_what_diverged(results: StudyResults) -> None:
    rows = effects.value_means(results).rows
    assert ("sampler", "asams-as-printed", 0, 1, None, None) in rows
    average = next(row for row in rows if row[1] == "class-average")
    assert average[2:4] == (4, 1)
    assert bare(average[4]) == pytest.approx((0.031 + 0.0245 + 0.0272 + 0.0445) / 4)
    assert average[5] == pytest.approx((0.0245, HALF * 0.0005))
    assert "r" not in [row[0] for row in rows]


def test_importance_has_a_table_where_it_is_known(results: StudyResults) -> None:
    assert "importance" not in all_tables(results)
    shares = {"kid": {"fANOVA": {"chi": 0.7, "r": 0.3}, "PED-ANOVA": {"r": 1.0}}}
    table = all_tables(results._replace(importance=shares))["importance"]
    assert [c.label for c in table.header] == ["knob", "KID, fANOVA", "KID, PED-ANOVA"]
    assert sorted(table.rows, key=str) == sorted([("r", 0.3, 1.0), ("χ", 0.7, None)], key=str)
