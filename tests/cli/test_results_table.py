"""The table of `ablate results`."""

from __future__ import annotations

import pytest

from ablate.cli.console import console, print_results
from tests.support.records import study


def test_diversity_stands_beside_kid_also_of_real_images(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = study()
    more = {"recall": 0.5123, "coverage": 0.6, "precision": 0.98}
    trials = [t._replace(metrics={**t.metrics, **more}) for t in record.trials]
    real = {"recall": 0.92, "coverage": 0.95, "precision": 0.9}
    baselines = {"held-out images": {**record.baselines["held-out images"], **real}}
    monkeypatch.setattr(console, "_width", 200)
    print_results(record._replace(trials=trials, baselines=baselines))
    shown = capsys.readouterr().out
    header = next(line for line in shown.splitlines() if "trial" in line and "kid" in line)
    assert header.index("kid") < header.index("recall") < header.index("coverage")
    assert header.index("coverage") < header.index("fid")
    assert "0.51 " in shown  # without an interval: the table stays narrow
    expected = "held-out images: kid 0.0008, recall 0.92, coverage 0.95, fid 4.1, precision 0.9"
    assert f"baseline: {expected}" in shown
    print_results(record)  # of a version that did not measure them
    assert "recall" not in capsys.readouterr().out
