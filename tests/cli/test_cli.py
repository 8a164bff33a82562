"""The command line: help with an example everywhere, one line and code 2 for mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from ablate.cli import main
from ablate.cli.console import bold
from tests.support.commands import command
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
        (["study", "digits-adsl"], "did you mean 'digits-adls'"),
        (["study", "digits-adls", "--json"], "--json: prints a plan"),
        (["study", "digits-adls", "--budget", "smok"], "did you mean 'smoke'?"),
        (["list", "fashoin"], "no study matches 'fashoin'; did you mean 'fashion'?"),
        (["show", "digits-adls", "--toml", "--json"], "give one of them"),
        (["data", "get", "fashoin"], "did you mean 'fashion'?"),
        (["bundle", "show", "fashoin"], "did you mean 'fashion'?"),
        (
            ["evaluate", "digits", "--extractor", "digits", "--set", "simga=3"],
            "no such knob; did you mean 'sigma'",
        ),
        (["evaluate", "digits", "--metric", "kidd"], "did you mean 'kid'"),
        (["bundle", "lst"], "Did you mean 'list'"),
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


def run_here(
    root: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, columns: str = ""
) -> int | str | None:
    """The exit code of a command in this process."""
    monkeypatch.setattr(sys, "argv", ["ablate", "--root", str(root), *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_list_takes_part_of_a_name_or_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(*arguments: str) -> list[str]:
        assert not run_here(tmp_path, monkeypatch, "list", "--json", *arguments)
        return [each["study"] for each in json.loads(capsys.readouterr().out)]

    everything = found()
    assert len(everything) > 40
    assert found("digits-a") == [name for name in everything if "digits-a" in name]
    assert found("*-adls") == [name for name in everything if name.endswith("-adls")]
    assert found("[df]*-init") == ["fashion-init", "digits-init"]


def test_one_broken_file_is_one_row_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "deep.toml").write_text("a = " + "[" * 3000)
    (tmp_path / "studies" / "evil.toml").write_text('question = "\\u001b[2J\\u202e"\nx = 1')
    assert not run_here(tmp_path, monkeypatch, "list")
    lines = capsys.readouterr().out.splitlines()
    (deep,) = [line for line in lines if line.startswith("deep ")]
    assert "nested too deeply" in deep
    assert deep.endswith("broken")
    assert any(line.startswith("digits-adls ") for line in lines)
    assert not any("\x1b" in line or "\u202e" in line for line in lines)


@pytest.mark.parametrize("columns", ["40", "80"])
@pytest.mark.parametrize(
    "arguments", [["list", "adls"], ["bundle", "list"], ["data"], ["show", "digits-adls", "--toml"]]
)
def test_nothing_is_cut_off_in_a_narrow_terminal(
    arguments: list[str],
    columns: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No ellipsis, no escape sequence; what is laid out fits."""
    assert not run_here(tmp_path, monkeypatch, *arguments, columns=columns)
    out = capsys.readouterr().out
    assert "…" not in out
    assert "\x1b" not in out
    if arguments[0] == "list":
        assert max(map(len, out.splitlines())) <= int(columns)


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "digits-adls"], ["bundle", "list"], ["data"]]
)
def test_json_is_json_alone(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not run_here(tmp_path, monkeypatch, *arguments, "--json")
    assert json.loads(capsys.readouterr().out)


def test_a_plan_needs_no_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four trials of one seed and 64 samples, two confirmations: counted from the file alone."""
    (tmp_path / "studies").mkdir()
    text = 'extends = "digits-adls"\nbundle = "not-trained-yet"\n'
    (tmp_path / "studies" / "mine.toml").write_text(text)
    plan = ("study", "mine", "--budget", "smoke", "--plan")
    assert not run_here(tmp_path, monkeypatch, *plan)
    said = capsys.readouterr().out
    assert "4 trials, 2 confirmations" in said
    assert "time and disk are not known: bundle 'not-trained-yet' is neither known" in said
    assert not run_here(tmp_path, monkeypatch, *plan, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["trials"], found["confirmations"], found["cells"]) == (4, 2, 6)
    assert found["evaluations"] > 0
    assert "not-trained-yet" in found["missing"]


@pytest.mark.filterwarnings("default")
def test_an_unknown_exception_hides_passwords_and_others_warnings_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        warnings.warn("a library's own", stacklevel=1)
        raise RuntimeError("cannot reach postgresql://me:hunter2@host/?password=swordfish \x1b[2J")

    monkeypatch.setattr("ablate.study.find.names", fail)
    assert run_here(tmp_path, monkeypatch, "list") == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "cannot reach postgresql://me:***@host/?password=***" in err
    assert "\x1b" not in err
    assert "a library's own" not in err


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`ablate list | true`."""
    line = command(tmp_path, "list")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_no_colour_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bold in a terminal; plain with NO_COLOR, with TERM=dumb and in a pipe."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert bold("x") == "\x1b[1mx\x1b[0m"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as within:
            within.setenv(name, value)
            assert bold("x") == "x"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert bold("x") == "x"
