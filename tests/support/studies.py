"""Small studies on the tiny bundle, and ways to run them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablate.cli.console import trial_rows
from ablate.core.workspace import Workspace
from ablate.experiment.prepare import Setup, prepare
from ablate.study.find import find, read
from ablate.tracking import Reader

TEXT = """
question = "Does it run?"
bundle = "tiny.safetensors"
method = "{method}"
seeds = [0, 1]
[fixed]
sampler = "adls"
sigma = 0.8
levels = 6
[search]
init = ["class-average", "lognormal", "gaussian"]
r = {{ low = 0.5, high = 1.0, step = 0.25 }}
[budgets.quick]
samples = 40
trials = {trials}
"""

TRIALS = 9
"""Of the study that others are compared with: the whole grid."""


def make_root(folder: Path, bundle: Path, method: str = "grid", trials: int = 4) -> Path:
    (folder / "studies").mkdir(parents=True)
    shutil.copy(bundle, folder / "tiny.safetensors")
    text = TEXT.format(method=method, trials=trials)
    (folder / "studies" / "tiny.toml").write_text(text)
    return folder


def setup_of(root: Path, name: str = "tiny") -> Setup:
    workspace = Workspace(root)
    return prepare(read(find(workspace, name), "quick"), workspace)


class Quiet:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.states: list[tuple[int, str]] = []
        self.share = 0.0

    def began(self, done: int, total: int, best: float | None) -> None:
        self.span, self.best = (done, total), best

    def advanced(self, share: float) -> None:
        self.share += share

    def stands(self, done: int, best: float | None) -> None:
        self.done = done

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
        self.states.append((number, state))


def command(root: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ablate", "--root", str(root), *arguments]


COLOURS = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "CLICOLOR_FORCE")


def environment() -> dict[str, str]:
    """One thread, as in this process: the last bits depend on it."""
    plain = {k: v for k, v in os.environ.items() if k not in COLOURS and not k.startswith("MLFLOW")}
    return {**plain, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def ablate(root: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """The real command in a process of its own."""
    return subprocess.run(
        command(root, *arguments), capture_output=True, text=True, check=check, env=environment()
    )


def results(root: Path, name: str = "tiny") -> list[dict[str, Any]]:
    """What `ablate results --json` prints, without a process for it: they take seconds to start."""
    rows: list[dict[str, Any]] = json.loads(
        json.dumps(trial_rows(Reader(Workspace(root)).latest(name)))
    )
    return rows


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results without durations, which no two runs share."""
    return [
        {
            "number": row["number"],
            "state": row["state"],
            "params": row["params"],
            "metrics": {k: v for k, v in row["metrics"].items() if k != "seconds"},
        }
        for row in rows
    ]
