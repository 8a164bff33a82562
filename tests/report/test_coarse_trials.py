"""The warning about grids too coarse for literal steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.core.coarseness import Coarseness
from ablate.report import render
from ablate.report.coarse_trials import coarse_trials, ranges, too_coarse
from ablate.results import StudyResults
from tests.support.records import no_pictures, study

FOUND = {
    0: Coarseness(1.93, 0.0566, 8, 10),
    1: Coarseness(1.3, 0.1, 1, 10),
    2: Coarseness(0.2, 0.03, 3, 10),  # further from 1 than 1.93
    3: Coarseness(1.2, 0.05, 0, 10),
    6: Coarseness(1.26, 0.05, 1, 10),
}


@pytest.fixture
def coarse() -> StudyResults:
    results = study()
    trials = [trial._replace(coarseness=FOUND.get(trial.number)) for trial in results.trials]
    return results._replace(trials=trials)


def test_the_warning_names_trials_and_the_worst(coarse: StudyResults) -> None:
    warning = too_coarse(coarse)
    assert warning is not None
    assert "literal steps of trials 0 to 2, 6: " in warning
    assert "less than 0.8 or more than 1.25 times the variance" in warning
    assert "(trial 2: 0.2 at s = 0.03)" in warning
    assert 'use integrator = "exponential" or more levels' in warning


def test_the_table_has_them_all(coarse: StudyResults) -> None:
    table = coarse_trials(coarse)
    assert [row[0] for row in table.rows] == [0, 1, 2, 6]
    assert table.rows[0][-4:] == (1.93, 0.0566, 8, 10)
    assert [column.key for column in table.header[-4:]] == [
        "noise_ratio",
        "s",
        "outside",
        "levels_checked",
    ]


def test_the_report_warns_above_its_sections(coarse: StudyResults, tmp_path: Path) -> None:
    html = render.write(coarse, no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert html.index('<p class="warning">') < html.index("<h2>")
    assert "too coarse for the literal steps of trials 0 to 2, 6" in html.replace("\u00a0", " ")
    markdown = (tmp_path / "r/report.md").read_text(encoding="utf-8")
    assert markdown.index("**Warning:**") < markdown.index("## ")
    csv = (tmp_path / "r/tables/coarse.csv").read_text().splitlines()
    assert len(csv) == 5
    assert csv[1].endswith(",1.93,0.0566,8,10")


def test_nothing_is_said_where_nothing_is_coarse(results: StudyResults, report: Path) -> None:
    assert too_coarse(results) is None
    assert 'class="warning"' not in (report / "index.html").read_text(encoding="utf-8")
    assert "**Warning:**" not in (report / "report.md").read_text(encoding="utf-8")
    assert not (report / "tables" / "coarse.csv").exists()


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([4], "trial 4"),
        ([0, 1], "trials 0, 1"),
        ([0, 1, 2, 5, 7, 8, 9, 10], "trials 0 to 2, 5, 7 to 10"),
    ],
)
def test_numbers_in_a_row_are_a_range(numbers: list[int], expected: str) -> None:
    assert ranges(numbers) == expected
