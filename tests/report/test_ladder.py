"""The section of an ablation ladder, on a document whose every number can be worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ablate.report import (
    figures,
    ladder,
    ladder_figure,
    one_at_a_time,
    render,
    sections,
    summary,
    tables,
)
from ablate.report.blocks import Paragraph, figures_in, tables_in
from ablate.report.names import Estimate
from ablate.report.shapes import Axis
from ablate.report.steps import step_names
from ablate.results import StudyResults
from tests.report.reading import column
from tests.support.records import HALF, no_pictures, study

Z95 = 1.959964


def effect(value: float, error: float) -> dict[str, dict[str, Any]]:
    """An effect on KID; FID, 10 + 1000 KID, has 1000 times as much."""
    return {
        metric: {
            "value": scale * value,
            "error": scale * error,
            "low": scale * (value - Z95 * error),
            "high": scale * (value + Z95 * error),
            "excludes_zero": abs(value) > Z95 * error,
        }
        for metric, scale in (("kid", 1), ("fid", 1000))
    }


def rung(name: str, trial: int | None, nfe: int, literal: int, **changes: Any) -> dict[str, Any]:
    made = {"name": name, "changes": changes, "trial": trial, "change": None}
    return made | {"nfe": nfe, "literal_nfe": literal}


DOCUMENT: dict[str, Any] = {
    "metrics": ["kid", "fid"],
    "cumulative": [
        rung("base", 0, 20, 999, sampler="adls", init="class-average", chi=0.995, r=0.57),
        rung("better start", 1, 20, 999, init="class-gaussian") | {"change": effect(-0.0125, 1e-3)},
        rung("consistent drift", 3, 20, 999, sampler="adls-consistent")
        | {"change": effect(-0.0063, 5e-4)},
        rung("flow", 13, 37, 37, sampler="pf-heun") | {"change": effect(-0.0003, 5e-4)},
    ],
    "steps": [
        {
            "name": "better start",
            "add_one": effect(-0.0125, 1e-3),
            "add_one_is_base": False,
            "leave_one_out": effect(-0.0025, 5e-4),
            "leave_one_out_is_top": False,
            "interaction": effect(0.01, 1e-3),
        },
        {
            "name": "consistent drift",
            "add_one": effect(-0.007, 5e-4),
            "add_one_is_base": False,
            "leave_one_out": effect(0.0, 0.0),
            "leave_one_out_is_top": True,
            "interaction": effect(0.007, 5e-4),
        },
        {
            "name": "flow",
            "add_one": effect(-0.0005, 5e-4),
            "add_one_is_base": False,
            "leave_one_out": effect(-0.0003, 5e-4),
            "leave_one_out_is_top": False,
            "interaction": effect(0.0002, 5e-4),
        },
    ],
    "left_out": [{"configuration": "the base and step 'flow' alone", "reason": "diverged"}],
}


@pytest.fixture
def climbed() -> StudyResults:
    return study()._replace(ladder=DOCUMENT)


def test_the_cumulative_ladder_has_changes_and_costs(climbed: StudyResults) -> None:
    table = ladder.cumulative(climbed, "kid")
    assert [c.label for c in table.header] == [
        *("step", "trial", "KID ↓", "change of KID"),
        *("NFE", "literal NFE", "seconds", "what changes"),
    ]
    assert column(table, "step") == ["base", "+ better start", "+ consistent drift", "+ flow"]
    assert (
        column(table, "changes")[0] == "sampler = adls, init = class-average, χ = 0.995, r = 0.57"
    )
    assert column(table, "kid")[1] == pytest.approx((0.0185, HALF * 0.0003))
    assert column(table, "change")[0] is None
    assert column(table, "change")[1] == pytest.approx((-0.0125, Z95 * 1e-3))
    assert column(table, "nfe") == [20, 20, 20, 37]
    assert column(table, "literal_nfe") == [999, 999, 999, 37]
    assert isinstance(column(table, "seconds")[0], Estimate)
    assert table.apart[0] == ("held-out images", Estimate(0.0008), *[None] * 5)


def test_a_literal_ladder_has_one_column_of_evaluations(climbed: StudyResults) -> None:
    rungs = [each | {"literal_nfe": each["nfe"]} for each in DOCUMENT["cumulative"]]
    literal = climbed._replace(ladder=DOCUMENT | {"cumulative": rungs})
    assert "literal_nfe" not in [c.key for c in ladder.cumulative(literal, "kid").header]
    data = ladder_figure.climb(literal, "kid")
    assert data is not None
    assert data.dots[0].label == "base  (20 NFE)"


def test_diversity_stands_beside_fidelity(climbed: StudyResults) -> None:
    trials = [t._replace(metrics=t.metrics | {"recall": 0.9}) for t in climbed.trials]
    table = ladder.cumulative(climbed._replace(trials=trials), "kid")
    assert column(table, "recall") == [Estimate(0.9)] * 4
    assert "coverage" not in [c.key for c in table.header]


def test_steps_are_read_by_their_interactions(climbed: StudyResults) -> None:
    table = ladder.by_step(climbed, "kid")
    assert column(table, "add_one")[0] == pytest.approx((-0.0125, Z95 * 1e-3))
    assert column(table, "leave_one_out")[1] == Estimate(0.0, 0.0)
    assert column(table, "reading") == [
        "does less good beside the others",
        "not in use once all steps are taken",
        "no interaction shown",
    ]


def test_where_more_is_better_an_interaction_reads_the_other_way(climbed: StudyResults) -> None:
    (goal,) = climbed.objectives
    upwards = climbed._replace(objectives=[type(goal)("kid", "maximize")])
    assert (
        column(ladder.by_step(upwards, "kid"), "reading")[0] == "does more good beside the others"
    )


def test_the_figure_goes_down_the_steps_on_a_log_scale(climbed: StudyResults) -> None:
    data = ladder_figure.climb(climbed, "kid")
    assert data is not None
    assert data.joined
    assert data.axis == Axis("KID (lower is better)", log=True)
    assert [dot.label for dot in data.dots][:2] == [
        "base  (20 NFE for 999)",
        "+ better start  (20 NFE for 999)",
    ]
    assert [dot.x for dot in data.dots] == [0, 1, 2, 3]
    assert [dot.trial for dot in data.dots if dot.best] == [13]
    trials = [t._replace(metrics=t.metrics | {"kid": -0.001}) for t in climbed.trials]
    below = ladder_figure.climb(climbed._replace(trials=trials), "kid")
    assert below is not None
    assert not below.axis.log


def test_a_rung_without_a_result_is_a_gap(climbed: StudyResults) -> None:
    rungs = [dict(each) for each in DOCUMENT["cumulative"]]
    rungs[1] |= {"trial": None, "change": None}
    rungs[2] |= {"change": None}
    steps = [each | {"interaction": None, "add_one": None} for each in DOCUMENT["steps"]]
    gap = climbed._replace(ladder=DOCUMENT | {"cumulative": rungs, "steps": steps})
    table = ladder.cumulative(gap, "kid")
    assert column(table, "kid")[1] is column(table, "change")[1] is None
    assert column(ladder.by_step(gap, "kid"), "reading")[0] is None
    data = ladder_figure.climb(gap, "kid")
    assert data is not None
    assert [(dot.trial, dot.x) for dot in data.dots] == [(0, 0), (3, 1), (13, 2)]
    (said,) = (each for each in ladder.blocks(gap) if isinstance(each, Paragraph))
    assert said.text == "Without a result: the base and step 'flow' alone (diverged)."


def test_a_ladder_without_any_result_is_no_figure(climbed: StudyResults) -> None:
    rungs = [each | {"trial": None, "change": None} for each in DOCUMENT["cumulative"]]
    none = climbed._replace(ladder=DOCUMENT | {"cumulative": rungs})
    assert ladder_figure.climb(none, "kid") is None
    assert figures_in(ladder.blocks(none)) == []
    assert ladder.sentences(none) == []


def test_the_answer_says_from_where_to_where(climbed: StudyResults) -> None:
    (first,) = ladder.sentences(climbed)
    assert first == (
        "From the base to the last of 3 steps KID goes from 0.03100 ± 0.00099 (20 evaluations a"
        " sample, for 999 of the literal run) to 0.01190 ± 0.00099 (37 evaluations a sample): by"
        " better start −0.0125 ± 0.0020, consistent drift"
        " −0.00630 ± 0.00098; no change shows from flow (−3.0 ± 9.8) × 10⁻⁴ (paired, 95 %)."
    )
    assert ladder.sentences(study()) == []


def test_the_report_of_a_ladder(climbed: StudyResults, tmp_path: Path) -> None:
    """Its section comes first and stands for what knobs do; FID's tables are written, too."""
    page = render.write(climbed, no_pictures, tmp_path / "r")
    html = page.read_text(encoding="utf-8")
    assert html.index("<h2>What each step does</h2>") < html.index("<h2>The best configurations")
    assert "What each knob does" not in html
    written = {path.name for path in (tmp_path / "r").rglob("*") if path.is_file()}
    assert {"ladder.csv", "ladder_steps.tex", "ladder_fid.csv", "ladder_steps_fid.csv"} <= written
    assert {"ladder.png", "ladder.svg"} <= written


def test_other_studies_have_no_such_section() -> None:
    built = sections.built(study(), sections.Context(no_pictures))
    (section,) = (each for each in built if each.title == "What each step does")
    assert section.blocks == []
    names = [table.name for each in built for table in tables_in(each.blocks)]
    assert not any(name.startswith("ladder") for name in names)


def test_the_best_of_alternatives_is_quoted_because_no_step_is_the_last(
    climbed: StudyResults,
) -> None:
    alternatives = climbed._replace(ladder=DOCUMENT | {"combinations": ["add-one"]})
    quoted = summary.headline(alternatives)
    assert quoted is not None
    assert quoted.number == 13


def test_steps_with_commas_in_their_names_stand_apart(climbed: StudyResults) -> None:
    """AdamW, a third of the rate (+0.07) after AdamW (+0.02) read as three steps."""
    plain = one_at_a_time.sentences(climbed)[0]
    first, *others = DOCUMENT["steps"]
    renamed = [first | {"name": f"{first['name']}, slower"}, *others]
    named = climbed._replace(ladder=DOCUMENT | {"steps": renamed})
    (found,) = one_at_a_time.sentences(named)
    assert "), " not in found
    assert "), " in plain


def test_trials_are_named_by_the_steps_that_lead_to_them(climbed: StudyResults) -> None:
    """Knobs name a ladder's trials poorly: two steps may differ in a knob that no label has room
    for."""
    steps = [each | {"trial": k} for each, k in zip(DOCUMENT["steps"], (1, 5, 6), strict=True)]
    both = climbed._replace(ladder=DOCUMENT | {"steps": steps})
    names = {
        0: "base",
        1: "+ better start",
        3: "… + consistent drift",
        13: "… + flow",
        5: "+ consistent drift alone",
        6: "+ flow alone",
    }
    assert step_names(both) == names
    assert step_names(study()) == {}
    table = tables.best(both, count=18)
    assert [c.key for c in table.header][:4] == ["rank", "trial", "step", "kid"]
    named = dict(zip(column(table, "trial"), column(table, "step"), strict=True))
    assert {trial: named[trial] for trial in names} == names
    assert named[9] == "pf-heun, forward-data (leaks data), levels = 10"
    data = figures.ladder(both, count=18)
    assert data is not None
    assert "… + flow  #13" in [dot.label for dot in data.dots]
