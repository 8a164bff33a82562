"""Jobs on the nodes of a Ray cluster.

What the jobs share goes into Ray's object store, which keeps one copy on each node. A job whose
process or node dies is submitted again, and Ray finds it another place.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ablate.experiment.executors.executor import DEATHS, Job, KilledError, UnfitError
from ablate.experiment.executors.parcel import Label, Shared, do, opened, pack, sealed
from ablate.experiment.executors.ray_cluster import Cluster, find_ray, nodes, said

LOOK = 1.0
"""Seconds between two looks at the nodes that there are."""

NOSET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
"""Leaves all GPUs of a node visible. A process serves one job after another, and the GPUs that it
sees cannot change once it has used one; so it is told which to use."""


class _Waiting(NamedTuple):
    job: bytes
    future: Future[Any]
    deaths: int = 0


class OnRay:
    """Does jobs on a cluster."""

    here = local = False

    def __init__(self, shared: Shared | None, cluster: Cluster) -> None:
        self._ray, self._needs = find_ray(), cluster.needs
        needs, self.threads = cluster.needs, cluster.needs.threads
        parcel, self._label = pack(shared, cluster.device, needs.threads)
        self._parcel = self._ray.put(np.frombuffer(parcel, np.uint8))
        environment = {"env_vars": {NOSET: "1"}} if needs.gpus else None
        self._do = self._ray.remote(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            max_retries=0,  # deaths are counted here
            max_calls=0,  # a process keeps what it has unpacked
            runtime_env=environment,
        )(_on_node)
        self._pending: dict[Any, _Waiting] = {}  # by Ray's reference
        self._lock, self._closed = threading.RLock(), False
        self._slots, self._looked = 1, -LOOK
        self._arrived: queue.SimpleQueue[tuple[Any, Future[bytes]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._receive, name="ray", daemon=True)
        self._thread.start()

    @property
    def slots(self) -> int:
        """How many jobs fit the nodes that there are now."""
        if time.monotonic() >= self._looked + LOOK:
            wanted = {"CPU": self._needs.cpus, "GPU": self._needs.gpus}
            self._slots, self._looked = 0, time.monotonic()
            for node in nodes(self._ray):
                fits = [node.get(name, 0.0) / each for name, each in wanted.items() if each]
                self._slots += int(min(fits, default=1.0) + 1e-9)
        return max(1, self._slots)

    def submit(self, job: Job) -> Future[Any]:
        future: Future[Any] = Future()
        self._send(_Waiting(sealed(job), future))
        return future

    def close(self) -> None:
        """Cancel what is not done."""
        with self._lock:
            self._closed, pending = True, dict(self._pending)
        for reference, waiting in pending.items():
            waiting.future.cancel()
            with suppress(Exception):  # the cluster may be gone
                self._ray.cancel(reference, force=True)
        self._arrived.put(None)
        self._thread.join()

    def _send(self, waiting: _Waiting) -> None:
        with self._lock:
            if self._closed:
                return
            reference = self._do.remote(self._parcel, self._label, waiting.job)
            self._pending[reference] = waiting
        reference.future().add_done_callback(lambda done: self._arrived.put((reference, done)))

    def _sent_again(self, waiting: _Waiting) -> bool:
        """Whether a job could be submitted again: the whole cluster may be gone."""
        try:
            self._send(waiting)
        except Exception:
            return False
        return True

    def _receive(self) -> None:
        """Take what arrives, in a thread of its own: Ray's may not submit jobs."""
        while (arrived := self._arrived.get()) is not None:
            reference, done = arrived
            with self._lock:
                waiting = self._pending.pop(reference)
            with suppress(InvalidStateError):  # it was cancelled meanwhile
                try:
                    waiting.future.set_result(opened(done.result()))
                except InvalidStateError:
                    raise
                except BaseException as error:
                    self._failed(waiting, error)

    def _failed(self, waiting: _Waiting, error: BaseException) -> None:
        """Submit a job again whose process or node died; other errors go to the one who asked."""
        exceptions = self._ray.exceptions
        died = (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.LocalRayletDiedError,
            exceptions.OutOfMemoryError,
            exceptions.ObjectLostError,
        )
        if isinstance(error, died):
            waiting = waiting._replace(deaths=waiting.deaths + 1)
            if waiting.deaths < DEATHS and self._sent_again(waiting):
                return
            short = isinstance(error, exceptions.OutOfMemoryError)
            how = "for lack of memory" if short else type(error).__name__
            error = KilledError(f"its process was killed {waiting.deaths} times ({how})")
        elif isinstance(error, exceptions.RayError):
            error = UnfitError(f"Ray cannot do the work ({said(error.__cause__ or error)})")
        waiting.future.set_exception(error)


def _on_node(parcel: Any, label: Label, job: bytes) -> bytes:
    """In a process of Ray: do a job on the GPU that was reserved for it, if any."""
    if label.device == "cuda":
        label = label._replace(device=_reserved(find_ray()))
    return do(memoryview(parcel), label, job)


def _reserved(ray: Any) -> str:
    """The GPU that Ray reserved, by torch's name for it."""
    first = ray.get_runtime_context().get_accelerator_ids()["GPU"][0]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return f"cuda:{visible.split(',').index(first) if visible else int(first)}"
