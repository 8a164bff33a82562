"""A real, headless Chromium, for tests of what a person sees."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1500,1000"
)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that waits up to a minute for what it is asked for; skips where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("Chromium and its driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in QUIET.split():
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.implicitly_wait(60)
    try:
        yield driver
    finally:
        driver.quit()


def widths(browser: Any) -> list[int]:
    """Of all pictures on the page; 0 is one that is broken or still on its way."""
    script = "return Array.from(document.images).map(picture => picture.naturalWidth)"
    found: list[int] = browser.execute_script(script)
    return found
