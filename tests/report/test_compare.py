"""One page that compares studies, and studies that cannot be compared."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.report import compare
from ablate.results import Objective, StudyResults
from tests.report.reading import column
from tests.support.records import HALF, PROTOCOL, study


def of(dataset: str, family: str) -> StudyResults:
    protocol = PROTOCOL | {"reference": f"{dataset}/test"}
    protocols = {"kid": protocol, "fid": protocol}
    return study()._replace(name=f"{dataset}-{family}", budget="quick", protocols=protocols)


def test_the_pivot_has_a_row_for_each_dataset_and_a_column_for_each_family() -> None:
    records = [of("fashion", "adls"), of("digits", "adls"), of("fashion", "init")]
    table = compare.pivot(compare.by_dataset(records))
    assert [c.key for c in table.header] == ["dataset", "adls", "init"]
    assert column(table, "dataset") == ["digits", "fashion"]
    assert column(table, "init") == [None, pytest.approx((0.0119, HALF * 0.0004))]


def test_the_page_ranks_studies_of_one_dataset_together(tmp_path: Path) -> None:
    page = compare.write_comparison([of("fashion", "adls"), of("fashion", "init")], tmp_path)
    assert page == tmp_path / "fashion-adls+fashion-init" / "index.html"
    html = page.read_text(encoding="utf-8")
    assert "Ranked together: fashion" in html
    assert "fashion-adls" in html
    with (page.parent / "tables" / "best-fashion.csv").open(encoding="utf-8") as rows:
        best = list(csv.DictReader(rows))
    assert [row["rank"] for row in best] == [str(rank) for rank in range(1, 11)]
    assert {row["study"] for row in best} == {"fashion-adls", "fashion-init"}
    assert (page.parent / "figures" / "best-fashion.pdf").is_file()
    assert "fashion-adls and fashion-init" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_mixed_protocols_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    first, second = of("fashion", "adls"), of("fashion", "init")
    other = {"kid": second.protocols["kid"] | {"samples": 64}, "fid": second.protocols["fid"]}
    mixed = second._replace(protocols=other)
    with pytest.raises(UserError, match=r"protocols differ.*samples: 1000 against 64"):
        compare.write_comparison([first, of("digits", "init"), mixed], tmp_path)
    goal = second._replace(objectives=[Objective("fid", "minimize")])
    with pytest.raises(UserError, match="different objectives: kid minimize; fid minimize"):
        compare.write_comparison([of("digits", "init"), goal], tmp_path)
    with pytest.raises(UserError, match="fashion-adls is named twice"):
        compare.write_comparison([first, first], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_many_studies_have_a_short_folder(tmp_path: Path) -> None:
    records = [of("digits", f"a{i}") for i in range(5)]
    assert compare.comparison_folder(tmp_path, records).name == "digits-a0+digits-a1+3-more"
