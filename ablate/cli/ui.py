"""`ablate ui`: the MLflow UI over this workspace's record."""

from __future__ import annotations

import os
import sys

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace


def serve(workspace: Workspace, port: int) -> None:
    """Replace this process by MLflow's server, reachable from this machine only."""
    if not workspace.has_record():
        raise UserError(f"no study has been run under {workspace.root}; start with: ablate list")
    store = ["--backend-store-uri", workspace.tracking_uri]
    artifacts = ["--default-artifact-root", workspace.artifacts.as_uri()]
    place = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")  # five processes, unused
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "server", *store, *artifacts, *place])
