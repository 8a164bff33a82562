"""Fixtures of the tests of metrics: the shipped extractor, and sizes of pieces."""

from __future__ import annotations

import pytest

from ablate.metrics import coverage, neighbours
from ablate.metrics.extractors.extractor import Extractor, load_extractor, shipped_path


@pytest.fixture(scope="session")
def extractor() -> Extractor:
    """The shipped classifier of digits."""
    return load_extractor(shipped_path("digits"))


@pytest.fixture(params=[3, 7, 1000], ids="pieces of {}".format)
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows per piece: fewer than there are, not a divisor of their number, and more."""
    rows: int = request.param
    for module in (neighbours, coverage):
        monkeypatch.setattr(module, "PIECE", rows)
    return rows
