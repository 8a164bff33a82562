"""Ray clusters of several nodes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

SETTINGS = {
    "RAY_worker_niceness": "0",  # by default Ray's processes come last
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "8",
}


class Nodes:
    """Three nodes of one core; tests kill some of them and add others."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as Local

        head = {"num_cpus": 1, "object_store_memory": 10**8, "include_dashboard": False}
        self._local: Any = Local(initialize_head=True, head_node_args=head)
        self._others: list[Any] = []
        for _ in range(2):
            self.add()

    @property
    def address(self) -> str:
        return str(self._local.address)

    def add(self) -> None:
        self._others.append(self._local.add_node(num_cpus=1, object_store_memory=10**8))

    def kill(self) -> None:
        self._local.remove_node(self._others.pop(0), allow_graceful=False)

    def repair(self) -> None:
        """Three nodes again."""
        while len(self._others) < 2:
            self.add()

    def shutdown(self) -> None:
        self._local.shutdown()


@contextmanager
def three_nodes() -> Iterator[Nodes]:
    """A cluster whose processes find the tests."""
    with patch.dict(os.environ, SETTINGS | {"PYTHONPATH": str(Path(__file__).parents[2])}):
        made = Nodes()
        try:
            yield made
        finally:
            made.shutdown()
