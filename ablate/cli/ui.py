"""`ablate ui`: the MLflow UI over this workspace's record."""

from __future__ import annotations

import os
import socket
import sys

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace

HOST = "127.0.0.1"
HOSTS = f"{HOST},{HOST}:*,localhost,localhost:*"
"""Names by which browsers may ask for pages; at any port, for tunnels. Others are refused, so that
no web page reaches the record through a name of its own."""


def serve(workspace: Workspace, port: int) -> None:
    """Print a link to every study, and replace this process by MLflow's server, which only this
    machine can reach."""
    if not workspace.has_record():
        raise UserError(f"no study has been run under {workspace.root}; start with: ablate list")
    _require_free(port)
    from ablate.tracking.views import prepare_views

    for view in prepare_views(workspace):
        print(f"{view.name}{view.about and f' ({view.about})'}: http://{HOST}:{port}/{view.path}")
    print("serving; Ctrl-C ends it", flush=True)
    store = ["--backend-store-uri", workspace.tracking_uri]
    artifacts = ["--default-artifact-root", workspace.artifacts.as_uri()]
    place = ["--host", HOST, "--port", str(port), "--workers", "1"]
    safe = ["--allowed-hosts", HOSTS]
    os.environ.pop("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", None)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")  # five processes, unused
    command = ["-m", "ablate.tracking.ui_server", *store, *artifacts, *place, *safe]
    os.execv(sys.executable, [sys.executable, *command])


def _require_free(port: int) -> None:
    """Raise an error if another program listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UserError(
                f"--port {port}: cannot be used on {HOST} ({error.strerror}); name another one"
            ) from None
