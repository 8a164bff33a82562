"""Trainings in new processes that torchrun starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ablate.models.recipe import Recipe


def by_torchrun(
    recipe: Recipe, folder: Path, stop: int = 0, processes: int = 2, device: str = "cpu"
) -> None:
    """Train on the digits in new processes; stops after step `stop`. See `training.worker`."""
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    launch += ["--master-addr", "127.0.0.1", "--master-port", "0"]
    launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    worker = ["-m", "tests.training.worker", recipe.model_dump_json(), str(folder), str(stop)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, *launch, *worker, device],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
