"""Published values beside ours."""

from __future__ import annotations

from ablate.report import ranking
from ablate.results import StudyResults
from tests.report.reading import all_tables


def test_what_others_published_stands_beside_ours(results: StudyResults) -> None:
    best = ranking.contenders(results)[0]
    entry = {"knobs": {"init": best.params["init"]}, "metrics": {"fid": 21.2, "kid": 0.02}}
    other = {"knobs": {"init": "none of ours"}, "metrics": {"kid": 0.03}}
    spec = {**results.spec, "published": [entry, other]}
    table = all_tables(results._replace(spec=spec))["published"]
    first, second = table.rows
    assert first[:2] == (best.params["init"], best.number)
    assert 0.02 in first
    assert best.metrics["kid"] in [getattr(item, "value", None) for item in first]
    assert second == ("none of ours", None, None, None, 0.03, None)
    assert "Not to be ranked together" in table.caption
    assert table.bold is None  # other protocols: no value is marked as the better one
    assert not table.grouped


def test_values_published_before_0_2_are_shown(results: StudyResults) -> None:
    entry = {"knobs": {"init": "lognormal"}, "metrics": {"kid": 0.02}}
    old = results._replace(spec={**results.spec, "marks": [entry]})
    assert all_tables(old)["published"].rows[0][0] == "lognormal"
