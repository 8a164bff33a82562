"""The command `ablate` in processes of its own, forked from a server that has imported everything.

A new Python takes four seconds of processor time to import torch, MLflow and Optuna; a fork of a
process that has imported them takes none. A forked command is otherwise like one that a shell
starts: it has its own process number, environment and output, and dies of signals. The workers of
`--workers` are new Pythons: the command starts them itself.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing import current_process, forkserver, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest.mock import patch

IMPORTED = (
    *("ablate.cli", "ablate.cli.console", "ablate.cli.progress", "ablate.report.render"),
    *("ablate.experiment.worker", "ablate.experiment.evaluate", "ablate.experiment.cost"),
    *("mlflow.tracking", "sklearn.datasets", "scipy.stats", "psycopg", "tests.support.studies"),
)
"""Modules that the server imports: everything that commands import when they run."""

COLOURS = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "CLICOLOR_FORCE")


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: one thread, as in this process, because the last bits of
    results depend on it."""
    plain = {k: v for k, v in os.environ.items() if k not in COLOURS and not k.startswith("MLFLOW")}
    return {**plain, "OMP_NUM_THREADS": "1", "COLUMNS": "120", **more}


def command(root: Path, *arguments: str) -> list[str]:
    """The command line for a new Python."""
    return [sys.executable, "-m", "ablate", "--root", str(root), *arguments]


@cache
def fork_server() -> ForkServerContext:
    """A server that forks processes with everything imported; it ends with this process."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    with patch.dict(os.environ, environment(), clear=True):  # some modules read it on import
        forkserver.ensure_running()
    return context


class Command:
    """A running `ablate`, with the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        root: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        new_session: bool = False,
        first: Callable[[], object] | None = None,
    ) -> None:
        """first: what the process does before the command begins; it must be picklable."""
        self._output = tempfile.TemporaryDirectory(prefix="ablate-command-")
        self._files = [Path(self._output.name, name) for name in ("stdout", "stderr")]
        for file in self._files:
            file.touch()
        self.arguments = ["ablate", "--root", str(root), *arguments]
        surroundings = dict(environment() if env is None else env)
        what = self.arguments, surroundings, Path.cwd(), self._files, new_session, first
        self._process = fork_server().Process(target=_main, args=what, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended the process."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.arguments, timeout)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """(stdout, stderr) at the end of the process."""
        self.wait(timeout)
        stdout, stderr = (file.read_text() for file in self._files)
        return stdout, stderr

    def errors(self) -> str:
        """What it has written to stderr so far."""
        return self._files[1].read_text()

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


def _main(
    arguments: list[str],
    surroundings: Mapping[str, str],
    folder: Path,
    files: list[Path],
    new_session: bool,
    first: Callable[[], object] | None,
) -> None:
    """In the forked process: what Python does for `python -m ablate`."""
    import torch

    from ablate.cli import main

    if new_session:
        os.setsid()
    current_process()._config["daemon"] = False  # type: ignore[attr-defined] # it may have children
    for number, file in zip((1, 2), files, strict=True):
        with file.open("w") as opened:
            os.dup2(opened.fileno(), number)
    os.chdir(folder)
    defaults = {k: v for k, v in os.environ.items() if k.startswith("MLFLOW")}  # set on import
    os.environ.clear()
    os.environ.update(defaults | dict(surroundings))
    tempfile.tempdir = None  # read from the environment again
    torch.set_num_threads(int(surroundings["OMP_NUM_THREADS"]))
    sys.argv = list(arguments)
    try:
        if first is not None:
            first()
        main()
    finally:
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        atexit._run_exitfuncs()  # a forked process does not run them by itself


def until(happened: Callable[[], bool], *processes: Command) -> None:
    """Wait for something to happen while processes run."""
    deadline = time.monotonic() + 600
    while not happened():
        for process in processes:
            assert process.poll() is None, f"ended too soon: {process.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ablate(
    root: Path, *arguments: str, check: bool = True, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    process = Command(root, *arguments, env=env)
    stdout, stderr = process.communicate()
    assert process.returncode is not None
    done = subprocess.CompletedProcess(process.arguments, process.returncode, stdout, stderr)
    if check:
        assert done.returncode == 0, stderr
    return done
