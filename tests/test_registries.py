"""What users may add: one toy of every kind, in a study that uses them all.

In this process, and from a package of their own by entry points.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.cli import main
from tests.support import toys
from tests.support.studies import ablate, environment

COMMANDS = [
    ["train-features", "toy-stripes"],
    ["train", "toys", "--device", "cpu"],
    ["study", "toys", "--budget", "quick", "--device", "cpu"],
    ["report", "toys"],
    ["results", "toys", "--json"],
]

ONE_PROCESS = """
import json, sys
from ablate.cli import main

for sys.argv in json.loads(sys.argv[1]):
    try:
        main()
    except SystemExit as end:
        assert not end.code, (sys.argv, end.code)
"""
"""All commands in one process: each would import torch and MLflow anew."""


@pytest.fixture
def registered() -> Iterator[None]:
    for registry, toy in toys.TOYS.values():
        registry.add(toy)
    yield
    for registry, toy in toys.TOYS.values():
        registry.remove(toy.name)


def check(root: Path, rows: list[dict[str, object]]) -> None:
    """Every toy left its mark."""
    by_lag = {row["params"]["lag"]: row for row in rows}  # type: ignore[index]
    assert [row["params"]["lag"] for row in rows] == [0.25, 0.0]  # type: ignore[index]  # backwards
    assert all(row["state"] == "complete" for row in rows)
    assert all(row["params"]["init"] == "toy-flat" for row in rows)  # type: ignore[index]
    values = [by_lag[lag]["metrics"]["toy-metric"] for lag in (0.0, 0.25)]  # type: ignore[index]
    assert values[0] != values[1]  # the knob does something
    page = (root / "reports" / "toys" / "index.html").read_text()
    assert "How many trials" in page
    assert "There are 2 trials." in page
    assert "Brightness" in page
    assert "share of the last slope" in page
    assert "(higher is better)" in page


def test_toys_of_this_process(
    registered: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    toys.write_files(tmp_path)
    for command in COMMANDS:
        monkeypatch.setattr(sys, "argv", ["ablate", "--root", str(tmp_path), *command])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, capsys.readouterr().err
    check(tmp_path, json.loads(capsys.readouterr().out))


def test_toys_of_another_package(tmp_path: Path) -> None:
    """As pip leaves a package: a module, and metadata that name its entry points."""
    site, root = tmp_path / "site", tmp_path / "root"
    root.mkdir()
    toys.write_files(root)
    metadata = site / "toy_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    points = "".join(
        f"[{registry.group}]\n{toy.name} = toy_package:{name}\n\n"
        for name, (registry, toy) in toys.TOYS.items()
    )
    (metadata / "entry_points.txt").write_text(points)
    (site / "toy_package.py").write_text(Path(toys.__file__).read_text())
    lines = [["ablate", "--root", str(root), *command] for command in COMMANDS]
    done = subprocess.run(
        [sys.executable, "-c", ONE_PROCESS, json.dumps(lines)],
        capture_output=True,
        text=True,
        env={**environment(), "PYTHONPATH": str(site)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(root, json.loads(done.stdout[done.stdout.rindex("\n[\n") :]))


def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    toys.write_files(tmp_path)
    done = ablate(tmp_path, "show", "toys", check=False)
    assert done.returncode == 2
    assert "search method 'toy-method' is unknown; known: grid, ladder, random" in done.stderr
