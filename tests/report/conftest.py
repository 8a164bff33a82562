"""The synthetic study and its report, made once for all tests of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.report import render
from ablate.results import StudyResults
from tests.support.records import pictures, study


@pytest.fixture(scope="session")
def results() -> StudyResults:
    return study()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the synthetic study's report."""
    folder = tmp_path_factory.mktemp("report")
    return render.write(study(), pictures(folder / "store"), folder / "fashion-start").parent
