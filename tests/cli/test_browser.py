"""What a person sees: a report in a real, headless Chromium."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from tests.support.chromium import chromium, widths
from tests.support.studies import Quiet, ablate, make_root, setup_of

pytestmark = pytest.mark.browser

AXE = [
    Path(folder, "node_modules", "axe-core", "axe.min.js")
    for folder in (Path(__file__).parents[2], os.environ.get("ABLATE_NODE", "."))
]
"""Where `npm install axe-core` may have put it: in the checkout, or in $ABLATE_NODE."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def root(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_root(tmp_path_factory.mktemp("browser") / "root", tiny_bundle, trials=3)
    run(setup_of(folder), Workspace(folder), Quiet())
    return folder


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The address of a report's page."""
    ablate(root, "report", "tiny")
    return (root / "reports" / "tiny" / "index.html").as_uri()


def test_the_report_opens_offline(browser: Any, page: str) -> None:
    browser.get(page)
    assert "Does it run?" in browser.page_source
    assert len(widths(browser)) >= 4
    assert all(width > 0 for width in widths(browser))
    assert browser.find_elements("css selector", "figure svg use[data-trial]")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_trials_are_sorted_filtered_and_pinned(browser: Any, page: str) -> None:
    browser.get(page)
    browser.find_element("tag name", "summary").click()

    def column(index: int) -> list[str]:
        script = """return [...document.querySelectorAll('.trials tbody tr')]
            .filter(row => !row.hidden).map(row => row.cells[arguments[0]].textContent)"""
        found: list[str] = browser.execute_script(script, index)
        return [each.removesuffix(" pin") for each in found]

    heads = browser.find_elements("css selector", ".trials thead th")
    rank = next(i for i, head in enumerate(heads) if head.text == "rank")
    for order in (["1", "2", "3"], ["3", "2", "1"]):
        heads[rank].find_element("tag name", "button").click()
        assert column(rank) == order
    assert heads[rank].get_attribute("aria-sort") == "descending"
    sigma = next(head for head in heads if head.get_attribute("textContent") == "σ")
    assert not sigma.is_displayed()  # of one value
    browser.find_element("css selector", ".tools input[type=checkbox]").click()
    assert sigma.is_displayed()
    search = browser.find_element("css selector", ".tools input[type=search]")
    for words, left in (("COMPLETE", 3), (" no-such-word", 0)):
        search.send_keys(words)
        assert len(column(0)) == left
        assert f"{left} of 3 trials" in browser.find_element("css selector", ".tools").text
    search.clear()
    browser.execute_script(
        "document.querySelector('.tools input').dispatchEvent(new Event('input'))"
    )
    for button in browser.find_elements("css selector", ".trials td button")[:2]:
        button.click()
    pinned = browser.find_element("css selector", ".pinned")
    heads = [head.text for head in pinned.find_elements("css selector", "thead th")]
    assert len(set(heads)) == 2
    assert all(head.startswith("trial ") for head in heads)
    pinned.find_element("tag name", "button").click()
    assert not pinned.is_displayed()


def test_a_dot_shows_its_configuration(browser: Any, page: str) -> None:
    browser.get(page)
    script = """const dot = [...document.querySelectorAll('use[data-trial]')]
            .find(each => each.getBoundingClientRect().width > 0);
        dot.dispatchEvent(new Event('pointerenter'));
        return [dot.dataset.trial, document.querySelector('.hint').textContent];"""
    trial, hint = browser.execute_script(script)
    assert hint.startswith(f"trial {trial}")
    assert "rank: " in hint
    assert "KID ↓: " in hint


def test_a_phone_shows_narrow_figures_and_nothing_is_cut(browser: Any, page: str) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for address in (page, page.replace("/tiny/", "/")):
            browser.get(address)
            script = "return document.documentElement.scrollWidth"
            assert browser.execute_script(script) == 390
        browser.get(page)
        for kind, shown in (("narrow", True), ("wide", False)):
            drawings = browser.find_elements("css selector", f".slim .drawing.{kind}")
            assert drawings
            assert all(each.is_displayed() == shown for each in drawings)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(browser: Any, page: str, scheme: str) -> None:
    axe = next((place for place in AXE if place.is_file()), None)
    if axe is None:
        pytest.skip("axe-core is not installed: npm install --no-save axe-core")
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    for address in (page, page.replace("/tiny/", "/")):
        browser.get(address)
        browser.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")
        browser.execute_script(axe.read_text(encoding="utf-8"))
        found = browser.execute_async_script("axe.run().then(arguments[0])")
        assert len(found["passes"]) > 20  # it did look
        serious = [v["id"] for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert serious == []


def test_print_is_clean(browser: Any, page: str) -> None:
    """Collapsed tables and what only a screen can use are left out."""
    browser.get(page)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        for kind in (".tools", "nav", ".files", "details figure"):
            found = browser.find_elements("css selector", kind)
            assert found
            assert not any(each.is_displayed() for each in found), kind
        assert browser.find_element("tag name", "h1").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
