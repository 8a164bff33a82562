"""One place holds the version; what is written for people agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

import ablate
from ablate.core.version import VERSION

ROOT = Path(ablate.__file__).parents[1]


def test_the_citation_and_the_changelog_agree_with_the_version() -> None:
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## \[?([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert citation is not None
    assert newest is not None
    assert (citation[1], newest[1], ablate.__version__) == (VERSION, VERSION, VERSION)
