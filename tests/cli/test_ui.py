"""The MLflow UI as `ablate ui` serves it, in a real, headless Chromium."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from ablate.results import StudyResults
from tests.support.chromium import chromium, widths
from tests.support.servers import free_port
from tests.support.studies import (
    Quiet,
    ablate,
    changed,
    command,
    environment,
    make_root,
    record_of,
)

KNOBS = (
    ("sigma = 0.8\n", 'init = "gaussian"\n'),
    ('init = ["class-average", "lognormal", "gaussian"]', "sigma = [0.6, 0.8]"),
)
"""Changes of the study `tiny` that make it vary two numbers, of which there is a contour plot."""


class Served(NamedTuple):
    """A running `ablate ui`."""

    address: str
    link: str  # that it printed for the study
    record: StudyResults


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def served(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A study with its report, at a place that it was moved to, in the UI."""
    made = make_root(tmp_path_factory.mktemp("ui") / "root", tiny_bundle, trials=6)
    run(changed(made, *KNOBS), Workspace(made), Quiet())
    root = made.rename(made.with_name("moved"))
    ablate(root, "report", "tiny")
    port = free_port()
    process = subprocess.Popen(
        command(root, "ui", "--port", str(port)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(address), 240)
        yield Served(address, line.partition(": ")[2].strip(), record_of(Workspace(root)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        process.stdout.close()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def rows(browser: Any) -> list[str]:
    """The names of the runs that the table shows, from top to bottom."""
    script = """const cells = [...document.querySelectorAll(".ag-row a")]
        .filter(link => link.textContent.startsWith("#"));
        const top = link => link.getBoundingClientRect().top;
        return cells.sort((a, b) => top(a) - top(b)).map(link => link.textContent)"""
    names: list[str] = browser.execute_script(script)
    return names


def columns(browser: Any) -> list[str]:
    script = """return [...document.querySelectorAll(".ag-header-cell")]
        .map(cell => cell.textContent.trim())"""
    names: list[str] = browser.execute_script(script)
    return names


def numbers(names: list[str]) -> list[int]:
    return [int(name.split()[0].removeprefix("#")) for name in names]


def open_study(browser: Any, served: Served, more: str = "") -> None:
    browser.get("about:blank")  # the UI would take another view for a change of this one
    browser.get(served.link + more)
    wait_until(lambda: len(rows(browser)) == 6)


@pytest.mark.browser
def test_the_link_opens_the_trials_as_model_training(browser: Any, served: Served) -> None:
    """Best first, with what varies, what was measured and the state; and no cells."""
    open_study(browser, served)
    assert numbers(rows(browser)) == [trial.number for trial in served.record.ranked()]
    assert "#0 σ.6 r.5" in rows(browser)
    assert {"r", "sigma", "kid", "fid", "nfe", "ablate.state"} <= set(columns(browser))
    assert not {"levels", "init"} & set(columns(browser))  # they do not vary
    assert "Judges" not in browser.find_element("tag name", "body").text  # of language models


@pytest.mark.browser
def test_any_page_opens_as_model_training(browser: Any, served: Served) -> None:
    """Also the address alone, and the experiment's without the link's parameters."""
    browser.delete_all_cookies()
    browser.get(served.address)
    browser.find_element("link text", "tiny").click()
    browser.find_element("xpath", "//h2[contains(., 'Runs')]")
    wait_until(lambda: "workflowType=machine_learning" in browser.current_url)
    assert "Judges" not in browser.find_element("tag name", "body").text


@pytest.mark.browser
def test_trials_are_filtered(browser: Any, served: Served) -> None:
    open_study(browser, served)
    field = browser.find_element("xpath", "//input[contains(@value, 'ablate.kind')]")
    field.send_keys(" and params.r = '0.5' and dataset.name = 'digits/train'\n")
    wait_until(lambda: len(rows(browser)) == 2)
    assert set(rows(browser)) == {"#0 σ.6 r.5", "#3 σ.8 r.5"}


@pytest.mark.browser
def test_four_trials_are_compared(browser: Any, served: Served) -> None:
    """Parallel coordinates open on the objective, which all trials have."""
    open_study(browser, served)
    boxes = browser.find_elements("css selector", ".ag-row input[aria-label*='row selection']")
    for box in boxes[:4]:
        browser.execute_script("arguments[0].click()", box)
    browser.find_element("xpath", "//button[normalize-space()='Compare']").click()
    browser.find_element("xpath", "//*[contains(text(), 'Comparing 4 Runs')]")
    axes = "//*[name()='svg']//*[name()='text' and normalize-space()='{}']"
    for knob in ("kid", "r", "sigma"):
        browser.find_element("xpath", axes.format(knob))


@pytest.mark.browser
def test_charts_show_a_contour_and_the_first_samples(browser: Any, served: Served) -> None:
    open_study(browser, served, "&compareRunsMode=CHART")
    wait_until(lambda: bool(browser.find_elements("css selector", ".contour path, .contourlayer")))
    browser.find_element("xpath", "//*[contains(text(), 'sigma vs. r vs. kid')]")
    grid = browser.find_element("xpath", "//*[contains(text(), 'first-samples')]")
    browser.execute_script("arguments[0].scrollIntoView()", grid)
    wait_until(lambda: widths(browser).count(256) == 6)  # the width to which MLflow makes copies


@pytest.mark.browser
def test_a_picture_of_a_moved_record_opens(browser: Any, served: Served) -> None:
    """Eight images of 64 pixels, with gaps of two."""
    trial = served.record.trials[0]
    path = f"{served.address}/#/experiments/1/runs/{trial.run_id}/artifacts/first-samples.png"
    browser.get(path)
    wait_until(lambda: 8 * 66 + 2 in widths(browser))


@pytest.mark.browser
def test_the_study_leads_to_its_report_and_its_best_trial(browser: Any, served: Served) -> None:
    browser.get(f"{served.address}/#/experiments/1/runs/{served.record.run_id}")
    best = browser.find_element("partial link text", f"#{served.record.ranked()[0].number} ")
    assert best.get_attribute("href").endswith(served.record.ranked()[0].run_id)
    href = browser.find_element("link text", "report.html").get_attribute("href")
    browser.get("about:blank")
    browser.get(href)
    browser.switch_to.frame(browser.find_element("css selector", "iframe"))
    wait_until(lambda: "Does it run?" in browser.find_element("tag name", "body").text)
    browser.switch_to.default_content()


@pytest.mark.browser
def test_only_this_machine_is_answered(served: Served) -> None:
    """A page of another name, which resolves to this machine, must not read the record."""
    port = int(served.address.rpartition(":")[2])
    statuses = {}
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "example.org", f"10.0.0.1:{port}"):
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/", headers={"Host": host})
        statuses[host.partition(":")[0]] = connection.getresponse().status
        connection.close()
    expected = {"127.0.0.1": 200, "localhost": 200, "example.org": 403, "10.0.0.1": 403}
    assert statuses == expected


def test_a_port_in_use_is_one_line(whole: Path, tmp_path: Path) -> None:
    """Before anything is written to the record."""
    root = shutil.copytree(whole, tmp_path / "root")
    before = Workspace(root).record.read_bytes()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = ablate(root, "ui", "--port", str(port), check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --port {port}: ")
    assert done.stderr.count("\n") == 1
    assert Workspace(root).record.read_bytes() == before
