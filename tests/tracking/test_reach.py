"""Servers that answer, refuse, or let a proxy answer for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from ablate.core.errors import PassingError, UserError
from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from ablate.tracking.client import reach
from tests.support.studies import Quiet, make_root, setup_of


@contextmanager
def answering(*codes: int) -> Iterator[str]:
    """The address of a server that gives these codes one after the other, the last for good."""
    left = list(codes)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = answer  # noqa: N815  # the names that the base class calls

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("code", [200, 401, 404])
def test_a_server_that_answers_is_there(code: int) -> None:
    with answering(code) as uri:
        reach(uri)


def test_a_proxy_without_its_server_is_waited_for() -> None:
    reasons: list[str] = []
    with answering(503, 502, 200) as uri:
        reach(uri, 60, reasons.append)
    (reason,) = reasons
    assert "no MLflow server there (503 Service Unavailable)" in reason


def test_who_waits_is_told_that_trying_again_may_help() -> None:
    with answering(503) as uri:
        with pytest.raises(PassingError, match="the same command continues"):
            reach(uri, 0.0)
        with pytest.raises(UserError, match=r"no MLflow server there \(503") as caught:
            reach(uri)
    assert caught.value.code == 2


def test_an_address_that_is_none_is_not_waited_for() -> None:
    with pytest.raises(UserError) as caught:
        reach("http://me:hush@[nowhere", 60)
    assert caught.value.code == 2
    assert "hush" not in str(caught.value)


def test_a_wrong_password_of_the_record_is_code_2(tiny_bundle: Path, tmp_path: Path) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    with answering(401) as uri, pytest.raises(UserError) as caught:
        run(setup, Workspace(tmp_path, tracking=uri), Quiet())
    assert isinstance(caught.value.__context__, MlflowException)
    assert caught.value.code == 2
    assert "401" in str(caught.value)
