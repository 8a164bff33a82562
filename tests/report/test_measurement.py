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
