"""The pace that bars show."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ablate.cli import progress


def test_images_of_an_earlier_process_are_no_pace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """7,000 come at once; then 1,000 take ten seconds: 100 a second, and 20 seconds are left."""
    clock = SimpleNamespace(perf_counter=iter((5.0, 15.0)).__next__)
    monkeypatch.setattr(progress, "time", clock)
    with progress.image_bar("features", 10_000) as advance:
        for images in (7_000, 1_000):
            advance(images)
    lines = capsys.readouterr().out.splitlines()
    assert any("7000/10000" in line and "images/s" not in line for line in lines), lines
    assert any("8000/10000 images  100 images/s, 0.3 min left" in line for line in lines), lines
