"""The table of `ablate results`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ablate.cli.alike import alike
from ablate.cli.results_table import print_next, print_results, significant, trial_lines
from ablate.core.workspace import Workspace
from ablate.report.standing import indistinguishable
from ablate.results import StudyResults, joined
from tests.support.records import lost, study


def measured() -> StudyResults:
    """The synthetic study with diversity, and a trial pruned after some samples."""
    record = study()
    more = {"recall": 0.5123, "coverage": 0.6, "precision": 0.98}
    trials = [t._replace(metrics={**t.metrics, **more}) for t in record.trials]
    pruned = lost(18, "pruned", {"sampler": "adls", "init": "lognormal"}, "at 64 samples")
    trials.append(pruned._replace(metrics={"kid": 0.5}, intervals={"kid": 0.25}))
    real = {"recall": 0.92, "coverage": 0.95, "precision": 0.9}
    baselines = {"held-out images": {**record.baselines["held-out images"], **real}}
    return record._replace(trials=trials, baselines=baselines)


def shown(
    record: StudyResults,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    w: str,
) -> str:
    monkeypatch.setenv("COLUMNS", w)
    print_results(record)
    return capsys.readouterr().out


def test_diversity_stands_beside_kid_also_of_real_images(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(measured(), monkeypatch, capsys, "200")
    header = next(line for line in out.splitlines() if "trial" in line and "kid" in line)
    assert header.index("kid") < header.index("recall") < header.index("coverage")
    assert header.index("coverage") < header.index("fid")
    assert "0.5123 " in out  # without an interval: the table stays narrow
    expected = "held-out images: kid 0.0008000, recall 0.9200, coverage 0.9500, fid 4.100"
    assert f"baseline: {expected}, precision 0.9000" in out
    assert "recall" not in shown(study(), monkeypatch, capsys, "200")  # an older record


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_is_cut_off_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every trial with its state, its value in four digits and its interval; every knob."""
    record = measured()
    out = shown(record, monkeypatch, capsys, str(width))
    lines = out.splitlines()
    assert "…" not in out
    table = [line for line in lines if not line.startswith("warning")]
    assert max(map(len, table)) <= width
    text = " ".join(out.split())
    for trial in record.trials:
        assert re.search(rf"\b{trial.number} .*?{trial.state}", text)
        if "kid" in trial.metrics:
            value = f"{significant(trial.metrics['kid'])} ± "
            assert value + significant(trial.intervals["kid"], 2) in text
        for each in (v for knob, v in trial.params.items() if knob != "sigma"):  # one for all
            assert (each if isinstance(each, str) else f"{each:.6g}") in text


def test_in_a_pipe_a_trial_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_results(measured())
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("18 ")]
    assert "pruned" in line
    assert "0.5000 ± 0.25" in line
    assert "lognormal" in line
    assert "\x1b" not in "".join(lines)


def test_the_best_and_what_cannot_be_distinguished_from_it_are_marked() -> None:
    """Trial 13 has KID 0.0119. Trials 3 and 5 differ by paired noise at most; 7, whose interval
    overlaps, does, for it has the same seeds' offsets. 9 starts from training images. A report says
    the same."""
    record = study()
    found = alike(record)
    assert found.best is not None
    assert found.best.number == 13
    assert sorted(trial.number for trial in found.tied) == [3, 5]
    assert [found.best, *found.tied] == indistinguishable(record, found.best)
    lines = trial_lines(record, found, None)
    marks = {int(line.split()[0]): line.split()[1] for line in lines[2:]}
    assert marks[13] == "best"
    assert [number for number, mark in marks.items() if mark == "tied"] == [3, 5]


def test_trials_of_several_studies_are_compared_by_their_intervals() -> None:
    """They share numbers and no noise: the half-width is 2.48 σ, so 7 overlaps, too."""
    first, second = study(), study()._replace(name="other")
    found = alike(joined([first, second]))
    assert {trial.number for trial in found.tied} == {3, 5, 7, 13}
    assert len(found.tied) == 7


def test_fresh_seeds_decide_what_ties_where_they_were_drawn() -> None:
    """By pairs with Holm's correction: trial 3 is worse though it ties in the search, and 5, which
    was not drawn again, is judged by the search."""
    record = study()
    rows = [
        {"trial": n, "again": 20 + n, "name": None, "top": True, "feasible": True}
        | {"confirmed": value, "error": 1e-4}
        for n, value in ((13, 0.0121), (3, 0.0129), (7, 0.0122))
    ]
    pairs = [
        {"trial": 13, "than": 3, "difference": -8e-4, "error": 1e-4, "probability": 1.0}
        | {"p": 1e-6, "holm": 2e-6},
        {"trial": 13, "than": 7, "difference": -1e-4, "error": 1e-4, "probability": 0.8}
        | {"p": 0.3, "holm": 0.3},
    ]
    document = {"metric": "kid", "seeds": [100], "samples": 64, "trials": rows, "pairs": pairs}
    found = alike(record._replace(confirmation=document))
    assert found.best is not None
    assert found.best.number == 13
    assert sorted(trial.number for trial in found.tied) == [5, 7]


def test_without_intervals_nothing_is_said_to_tie() -> None:
    found = alike(study(seeds=1))
    assert found.best is not None
    assert found.tied == []
    assert "not known" in found.how


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0423, "0.04230"),
        (1000.0, "1000"),
        (12345.6, "12346"),
        (-0.019981, "-0.01998"),
        (3.14159e-6, "3.142e-06"),
        (0.5, "0.5000"),
        (float("inf"), "inf"),
        (4.0e12, "4.000e+12"),
    ],
)
def test_numbers_have_four_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_the_next_command_is_ready_to_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = study()._replace(name="a study", budget="quick")
    monkeypatch.chdir(tmp_path)
    print_next(Workspace(tmp_path), record)
    first, _ = capsys.readouterr().out.splitlines()
    assert first == "next: ablate report 'a study' --budget quick"
    print_next(Workspace(tmp_path / "other", tracking="http://me:secret@host"), record)
    first, _ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"next: ablate --root {tmp_path}/other report 'a study'")
    assert "secret" not in first
