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


def test_lines_come_for_each_twentieth_whatever_the_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Pieces of 1,024 of 10,000: none is a multiple of 500."""
    with progress.counting_bar("sample", 10_000, "images") as tick:
        for done in (1, 2, *range(1_024, 10_000, 1_024), 10_000):
            tick(done)
    lines = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [f"{done}/10000" for done in (*range(1_024, 10_000, 1_024), 10_000)]
