"""The command line: help with an example everywhere, one line and code 2 for mistakes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from ablate.cli import main
from tests.support.studies import ablate

COMMANDS = [
    *("study", "results", "list", "show", "report", "ui", "train", "train-features"),
    *("evaluate", "features", "features compute", "features import"),
    *("data", "data get", "bundle", "bundle list", "bundle show", "bundle sample", "bundle import"),
]


def test_help_has_an_example(tmp_path: Path) -> None:
    for name in COMMANDS:
        text = ablate(tmp_path, *name.split(), "--help").stdout
        assert f"Example: ablate {name}" in text
    assert "study" in ablate(tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["study", "nothing"], "study 'nothing' is unknown; known: "),
        (["study", "none.toml"], "none.toml: no such file"),
        (["study", "digits-adls", "--budget", "huge"], "budgets.huge is not there"),
        (["study", "digits-adls", "--device", "abacus"], "--device abacus"),
        (["study", "digits-adls", "--device", "cuda:99"], "--device cuda:99"),
        (["study", "digits-adls", "--trials", "0"], "--trials"),
        (["study"], "Missing argument 'name'"),
        (["stduy"], "stduy"),
        (["results", "digits-adls"], "no study has been run under"),
        (["report", "digits-adls"], "no study has been run under"),
        (["report"], "no study has been run"),
        (["ui"], "no study has been run"),
        (["train", "moon"], "training file 'moon' is unknown; known: "),
        (["train", "digits", "--out", "bundle.pt"], "must end in .safetensors"),
        (["train-features", "moon"], "dataset 'moon' is unknown"),
        (["data", "get", "digits"], "dataset 'digits' is not one to download"),
        (["bundle", "show", "moon"], "bundle 'moon' is neither known ("),
        (
            ["bundle", "import", "w.pt", "--recipe", "digits", "--out", "b.safetensors"],
            "weights w.pt: no such file",
        ),
        (
            ["bundle", "import", "w", "--recipe", "digits", "--out", "b.safetensors", "--N", "9"],
            "give both or neither",
        ),
        (["bundle", "sample", "digits", "--sigma", "9"], "ask for"),
    ],
)
def test_a_mistake_is_one_line_with_code_2(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In this process: sixteen would import torch sixteen times."""
    monkeypatch.setattr(sys, "argv", ["ablate", "--root", str(tmp_path), *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    assert caught.value.code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err
    assert out == ""
    assert not (tmp_path / "mlruns").exists()


def test_data_and_bundles_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_DATA", str(tmp_path))
    listed = ablate(tmp_path, "data").stdout
    assert "1438 training and 359 held-out images" in listed
    assert listed.count("not here") == 4
    assert "1×8×8" in ablate(tmp_path, "bundle", "list").stdout
    assert '"dataset": "digits"' in ablate(tmp_path, "bundle", "show", "digits").stdout


def test_a_bundle_is_sampled_beside_its_yardsticks(tmp_path: Path) -> None:
    printed = ablate(tmp_path, "bundle", "sample", "digits", "--samples", "32").stdout
    assert "17 network evaluations" in printed
    assert "held-out images" in printed
    assert (tmp_path / "reports" / "bundles" / "digits.png").stat().st_size > 1000


def test_list_and_show_work_anywhere(tmp_path: Path) -> None:
    listed = ablate(tmp_path, "list").stdout
    assert "digits-adls" in listed
    assert "not run" in listed
    shown = ablate(tmp_path, "show", "digits-adls", "--budget", "quick").stdout
    assert '"samples": 256' in shown
    assert not (tmp_path / "mlruns").exists()
