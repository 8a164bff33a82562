"""Where a number comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ablate.core import provenance


def test_only_the_package_can_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that is written into the checkout changes no result."""
    package, report = tmp_path / "package", tmp_path / "reports" / "report.md"
    for folder in (package, report.parent):
        folder.mkdir()
    (package / "code.py").write_text("1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(provenance, "PACKAGE", package)
    report.write_text("written")
    assert provenance.provenance.__wrapped__("cpu")["ablate.dirty"] == "no"
    (package / "new.py").write_text("2")
    assert provenance.provenance.__wrapped__("cpu")["ablate.dirty"] == "yes"
