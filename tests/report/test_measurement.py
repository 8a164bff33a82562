"""How the numbers were measured, and where they come from."""

from __future__ import annotations

from ablate.report import measurement
from ablate.results import StudyResults


def test_metrics_measured_alike_share_a_column(results: StudyResults) -> None:
    alike = dict.fromkeys(("fid", "recall"), results.protocols["fid"])
    table = measurement.protocols(results._replace(protocols={**results.protocols, **alike}))
    assert [column.label for column in table.header] == ["", "KID", "FID, recall"]


def test_protocols_and_provenance(results: StudyResults) -> None:
    table = measurement.protocols(results)
    assert ("reference count", 10000, 10000) in table.rows
    assert table.rows[-1] == ("subsets", "100 of 500", None)
    facts = {row[0]: row[1] for row in measurement.provenance(results).rows}
    assert facts["hash of the resolved study"] == "b7e2d1c04a9f"
    assert facts["commit"] == "0f3c2a9"
    assert facts["objectives"] == "KID ↓"


def test_provenance_says_each_thing_once_and_in_words(results: StudyResults) -> None:
    tags = {"ablate.hash": "b7", "ablate.dirty": "no", "version.torch": "2.6.0"}
    tags |= {"protocol.kid": "1"}
    found = measurement.provenance(results._replace(tags=tags)).rows
    rows = {str(row[0]): row[1] for row in found}
    assert rows["uncommitted changes"] == "no"
    assert rows["torch"] == "2.6.0"
    assert "b7" not in rows.values()
    assert not any("protocol" in name or "ablate." in name for name in rows)


def test_records_tables_have_no_empty_rows_and_no_words_of_python(results: StudyResults) -> None:
    tags = {"ablate.reason": "", "ablate.device": "cpu"}
    found = measurement.provenance(results._replace(tags=tags)).rows
    assert ("device", "cpu") in found
    assert all(row[1] for row in found)
    mirrored = {"kid": {**results.protocols["kid"], "mirrored_too": "True"}}
    table = measurement.protocols(results._replace(protocols=mirrored))
    assert ("mirrored too", "yes") in table.rows


def test_the_command_for_tables_and_figures_stands_beside_the_intervals(
    results: StudyResults,
) -> None:
    text = measurement.intervals(results).text
    assert text.endswith("from the record alone, by ablate report fashion-start --budget laptop.")
