"""`--ray` and what is wrong with it: one line each, and nothing half-written."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ablate.core.errors import PassingError, UserError
from ablate.core.workspace import Workspace
from ablate.experiment.executors.ray_cluster import Cluster
from tests.support.commands import ablate
from tests.support.studies import make_root

PASSWORD = "hunter2hunter2"


def refused(root: Path, code: int, *arguments: str) -> str:
    """The one line that a command ends with."""
    done = ablate(root, "study", "tiny", *arguments, check=False)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert not Workspace(root).search.exists()
    assert not Workspace(root).record.exists()
    return line.removeprefix("error: ")


@contextmanager
def listener() -> Iterator[str]:
    """The address of a server that is not Ray: it never accepts."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError) as error:
        Cluster("auto", None, None)
    assert str(error.value) == "--ray: Ray is not installed; pip install 'ablate-gbm[ray]'"
    assert error.value.code == 2


def test_options_that_do_not_go_together(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, databases=False)
    for arguments, said in (
        (("--gpus-per-cell", "1"), "--gpus-per-cell 1: goes with --ray"),
        (("--cpus-per-cell", "0.5"), "--cpus-per-cell 0.5: goes with --ray"),
        (("--ray", "auto", "--workers", "2"), "--ray: not with --workers"),
        (("--ray", "auto", "--plan"), "--ray: not with --plan"),
    ):
        assert refused(root, 2, *arguments) == said


def test_an_address_that_is_none_or_that_nobody_answers(tiny_bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    root = make_root(tmp_path, tiny_bundle, databases=False)
    assert refused(root, 2, "--ray", "http://head") == (
        "--ray http://head: not auto, host:port or ray://host:port"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # nobody listens there
    began = time.monotonic()
    line = refused(root, PassingError.code, "--ray", f"ray://me:{PASSWORD}@127.0.0.1:{port}")
    assert time.monotonic() - began < 60  # most of it is the command's own start
    assert line.startswith(f"--ray ray://me:***@127.0.0.1:{port}: nobody answers there (")
    assert PASSWORD not in line


def test_a_password_before_a_plain_address_is_not_shown() -> None:
    pytest.importorskip("ray")
    with pytest.raises(UserError) as error:
        Cluster(f"me:{PASSWORD}@127.0.0.1:1", None, None)
    assert "***@127.0.0.1:1" in str(error.value)
    assert PASSWORD not in str(error.value)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_server_that_is_silent_is_not_waited_for(scheme: str) -> None:
    """Ray itself would wait for minutes."""
    pytest.importorskip("ray")
    with listener() as address:
        began = time.monotonic()
        with pytest.raises(PassingError, match="nobody answers there"):
            Cluster(scheme + address, None, None)
        assert time.monotonic() - began < 10
