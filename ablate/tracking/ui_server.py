"""MLflow's server with our front page: `python -m ablate.tracking.ui_server` takes its options.

MLflow starts its web application in a process of its own, and `_build_uvicorn_command` is the
private function that names the application. Without that function the UI is MLflow's own, and only
the links of `ablate ui` open it as model training.
"""

from __future__ import annotations

import sys
from typing import Any

import mlflow.server
from mlflow.cli import cli

BUILD = "_build_uvicorn_command"
THEIRS, OURS = "mlflow.server.fastapi_app:app", "ablate.tracking.ui_page:app"


def main(options: list[str]) -> None:
    """Serve until the process is stopped."""
    build: Any = getattr(mlflow.server, BUILD, None)
    if build is not None:

        def with_our_page(*parts: Any, **named: Any) -> Any:
            return [OURS if part == THEIRS else part for part in build(*parts, **named)]

        setattr(mlflow.server, BUILD, with_our_page)
    cli(["server", *options])


if __name__ == "__main__":
    main(sys.argv[1:])
