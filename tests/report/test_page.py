"""The page: complete in one file, and safe from what results hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

from ablate.report import answer, render
from tests.support.records import empty, no_pictures, study

FIGURES = ("best", "forest", "choices", "sweeps", "law", "cost")


class Links(HTMLParser):
    """Every src and href of a page, and the tags left open."""

    VOID = frozenset({"meta", "img", "link", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_but_itself(report: Path) -> None:
    html = (report / "index.html").read_text(encoding="utf-8")
    page = Links(html)
    assert not page.open
    assert not {"link", "iframe", "object", "base", "form"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert "fetch(" not in html
    assert "XMLHttpRequest" not in html
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert "url(" not in html.replace("url(#", "")
    elsewhere = {link for link in page.links if not link.startswith(("data:image/", "#"))}
    files = {f"figures/{name}.{kind}" for name in FIGURES for kind in ("png", "svg", "pdf")}
    assert elsewhere == {
        *("tables/trials.csv", "tables/history.csv", "tables/study.csv"),
        *("tables/", "figures/"),
        *files,
    }
    assert page.tags.count("svg") == 2 * len(FIGURES) + 1  # wide, narrow for phones, letters
    assert sum(link.startswith("data:image/") for link in page.links) == 5


def test_ids_are_unique_and_every_reference_leads_to_one(report: Path) -> None:
    """Several figures drawn by the same library stand in one page."""
    html = (report / "index.html").read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'href="#([^"]+)"', html) + re.findall(r"url\(#([^)]+)\)", html)
    assert len(wanted) > 100
    assert set(wanted) <= set(ids)


def test_every_dot_names_its_trial(report: Path) -> None:
    html = (report / "index.html").read_text(encoding="utf-8")
    for name, least in {"best": 12, "forest": 1, "choices": 11, "sweeps": 11, "cost": 11}.items():
        start = html.index(f'id="{name}-figure_1"')
        figure = html[start : html.index("</svg>", start)]
        trials = {int(found) for found in re.findall(r'<use data-trial="(\d+)"', figure)}
        assert trials <= set(range(18))
        assert len(trials) >= least


def test_columns_with_one_value_are_marked(report: Path) -> None:
    html = (report / "index.html").read_text(encoding="utf-8")
    trials = html[html.index('<figure class="table trials') :]
    assert '<th class="k" scope="col"><i>σ</i></th>' in trials
    assert '<th scope="col"><i>χ</i></th>' in trials


def test_the_page_says_what_matters(report: Path) -> None:
    html = (report / "index.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    for phrase in (
        "Which start and which sampler",
        "configurations cannot be distinguished by their intervals",
        "15 of 20 planned trials complete",
        "annealing: the factor on the noise coefficient",
        'forward-data <span class="leak">leaks data</span>',
        "3.1 % of the pixels changed sign",
        "0.9 GB_free &amp; none",
        "sha256:4f1c09ab",
        "b7e2d1c04a9f",
    ):
        assert phrase in html


def test_names_from_results_cannot_break_the_page(tmp_path: Path) -> None:
    nasty = empty()._replace(name="<script>x</script>", question="a <b> & 'c'")
    html = render.write(nasty, no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert Links(html).tags.count("script") == 1  # the page's own
    assert "a &lt;b&gt; &amp;" in html


def test_a_study_without_complete_trials_still_has_a_report(tmp_path: Path) -> None:
    html = render.write(empty(), no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert "No configuration is complete yet" in html
    assert "0 of 20 planned trials complete, 1 diverged, 1 failed, 1 running." in html
    assert "held-out images" in html
    assert "What each knob does" not in html
    bare = empty()._replace(trials=[], baselines={}, protocols={}, tags={})
    assert render.write(bare, no_pictures, tmp_path / "bare").is_file()


def test_one_seed_has_no_interval_and_says_so(tmp_path: Path) -> None:
    results = study(seeds=1)
    assert "KID 0.0119 (no interval)" in answer.answer(results)[0]
    assert "may or may not be behind (no interval)" in answer.answer(results)[1]
    html = render.write(results, no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert "No interval." in html
    assert "±" not in html
    assert "kid_half_width" not in (tmp_path / "r/tables/trials.csv").read_text()


def test_print_has_no_stranded_heading() -> None:
    """A wide table starts a page of its own, and takes a heading right above it along; a table of
    few rows is whole."""
    style = files("ablate.report").joinpath("style.css").read_text(encoding="utf-8")
    printed = style[style.index("@media print") :]
    assert "figure.broad { page: broad; }" in printed
    assert "h2:has(+ figure.broad) { page: broad; }" in printed
    assert "figure.table:not(:has(tr:nth-child(15))) { break-inside: avoid; }" in printed
