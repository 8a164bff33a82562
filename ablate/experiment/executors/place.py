"""Where a command's jobs are done, as its flags say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from ablate.core.device import spread
from ablate.experiment.executors.executor import Executor, InProcess
from ablate.experiment.executors.parcel import Shared
from ablate.experiment.executors.pool import Pool
from ablate.experiment.executors.ray_cluster import Cluster


class Place(NamedTuple):
    """This process, several on this machine, or a Ray cluster."""

    device: str
    workers: int = 1
    cluster: Cluster | None = None

    @property
    def here(self) -> bool:
        return self.workers == 1 and self.cluster is None

    @property
    def threads(self) -> int:
        """Of each process."""
        if self.cluster is not None:
            return self.cluster.needs.threads
        if self.workers == 1:
            return torch.get_num_threads()
        given = os.environ.get("OMP_NUM_THREADS", "")
        return int(given) if given.isdigit() else max(1, (os.cpu_count() or 1) // self.workers)

    @contextmanager
    def executor(self, shared: Shared) -> Iterator[Executor]:
        """An executor for jobs that share something, for the block."""
        executor: Executor
        if self.cluster is not None:
            from ablate.experiment.executors.on_ray import OnRay

            executor = OnRay(shared, self.cluster)
        elif self.workers > 1:
            executor = Pool(shared, spread(self.device, self.workers), self.threads)
        else:
            executor = InProcess(shared.on(self.device))
        try:
            yield executor
        finally:
            executor.close()
