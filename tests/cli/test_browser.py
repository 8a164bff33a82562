"""What a person sees: the MLflow UI and the report in a real, headless Chromium."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from tests.support.studies import Quiet, ablate, command, environment, make_root, setup_of

pytestmark = pytest.mark.browser

QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1500,1000"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("Chromium and its driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in QUIET.split():
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    driver.implicitly_wait(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def root(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_root(tmp_path_factory.mktemp("browser") / "root", tiny_bundle, trials=3)
    run(setup_of(folder), Workspace(folder), Quiet())
    return folder


@pytest.fixture(scope="module")
def ui(root: Path) -> Iterator[str]:
    """The address of a running `ablate ui`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        command(root, "ui", "--port", str(port)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 90
    while not _answers(address):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    yield address
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_the_ui_shows_the_study_its_trials_and_their_images(
    browser: Any, ui: str, root: Path
) -> None:
    client = MlflowClient(Workspace(root).tracking_uri)
    found = client.get_experiment_by_name("tiny")
    assert found is not None
    experiment = found.experiment_id
    browser.get(f"{ui}/#/experiments/{experiment}/runs")
    study = browser.find_element("partial link text", "tiny/quick/")
    study.find_element("xpath", "./ancestor::*[@role='row'][1]//button").click()  # unfold
    for number in range(3):
        browser.find_element("link text", f"trial {number}")
    (trial,) = client.search_runs([experiment], "attributes.run_name = 'trial 0'")
    browser.get(f"{ui}/#/experiments/{experiment}/runs/{trial.info.run_id}/artifacts/samples.png")
    browser.find_element("xpath", "//*[contains(text(), 'samples.png')]")
    deadline = time.monotonic() + 60
    while max(widths(browser), default=0) < 200:  # 16 images of 28 pixels, and their margins
        assert time.monotonic() < deadline
        time.sleep(0.5)


def widths(browser: Any) -> list[int]:
    """Of all pictures on the page; 0 is one that is broken or still on its way."""
    script = "return Array.from(document.images).map(picture => picture.naturalWidth)"
    found: list[int] = browser.execute_script(script)
    return found


def test_the_report_opens_offline(browser: Any, root: Path) -> None:
    ablate(root, "report", "tiny")
    browser.get((root / "reports" / "tiny" / "index.html").as_uri())
    assert "Does it run?" in browser.page_source
    assert len(widths(browser)) >= 4
    assert all(width > 0 for width in widths(browser))
