"""The front page over all reports."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ablate.report import front, render
from ablate.report.places import SUMMARY
from ablate.results import StudyResults
from tests.support.records import PROTOCOL, empty, no_pictures


def of(dataset: str, family: str, budget: str = "quick") -> StudyResults:
    protocols = {"kid": PROTOCOL | {"reference": f"{dataset}/test"}}
    name, question = f"{dataset}-{family}", f"What of {family} & <{dataset}>?"
    return empty()._replace(name=name, budget=budget, question=question, protocols=protocols)


def test_every_report_is_linked_and_stands_in_its_cell(tmp_path: Path) -> None:
    for results in (of("fashion", "init"), of("digits", "init", "smoke"), of("digits", "adls")):
        render.publish(results, no_pictures, tmp_path)
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    for folder in ("fashion-init", "digits-init-smoke", "digits-adls"):
        assert html.count(f'href="{folder}/index.html"') == 2  # in the pivot and on its card
    assert escape("What of init & <fashion>?") in html
    assert (
        '<th class="left" scope="col">digits</th><th class="left" scope="col">fashion</th>' in html
    )
    adls = html[html.index('<th scope="row">adls</th>') :].split("</tr>")[0].strip()
    assert adls.endswith('<td class="left">–</td>')  # no such study of fashion
    assert "(smoke)" in html
    assert "http" not in html
    assert "<script" not in html


def test_it_is_the_same_whatever_was_written_last(tmp_path: Path) -> None:
    studies = [of("fashion", "init"), of("digits", "init", "smoke"), of("digits", "init")]
    for name, order in (("a", studies), ("b", studies[::-1])):
        for results in order:
            render.publish(results, no_pictures, tmp_path / name)
    first, second = ((tmp_path / name / "index.html").read_bytes() for name in "ab")
    assert first == second
    folders = [each["folder"] for each in front.summaries(tmp_path / "a")]
    assert folders == ["digits-init", "digits-init-smoke", "fashion-init"]


def test_reports_without_a_summary_are_linked_too(tmp_path: Path) -> None:
    page = render.publish(of("digits", "adls"), no_pictures, tmp_path)
    (page.parent / SUMMARY).unlink()
    (tmp_path / "notes").mkdir()
    html = front.write_front(tmp_path).read_text(encoding="utf-8")
    assert "Reports of earlier versions" in html
    assert 'href="digits-adls/index.html"' in html
    assert "notes" not in html
