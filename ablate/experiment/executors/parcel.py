"""What jobs share, packed for other processes, and jobs done there.

Other processes have to be like this one: results depend on the versions of Python and of the
package, and jobs could not even be read. Bytes are checked by their digest.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
from typing import Any, NamedTuple, Protocol

import torch

from ablate.core.device import resolve
from ablate.core.errors import UserError
from ablate.core.version import VERSION
from ablate.experiment.executors.executor import Job, JobError, UnfitError

MOST_OPEN = 2
"""Parcels that a process keeps unpacked: a worker of Ray may serve one study after another."""


class Shared(Protocol):
    """What jobs share."""

    def on(self, device: str) -> Any:
        """The same for work on a device of another process."""


class Label(NamedTuple):
    """What goes with every job: which parcel it needs, and how it is to be done."""

    digest: str  # of the parcel, SHA-256
    device: str
    threads: int  # of torch: the last bits of results depend on how many there are
    versions: tuple[tuple[str, str], ...]


class Failure(NamedTuple):
    """An exception of a job: its type may not exist in the process that asked."""

    reason: str
    unfit: bool

    def exception(self) -> Exception:
        return UnfitError(self.reason) if self.unfit else JobError(self.reason)


def versions() -> tuple[tuple[str, str], ...]:
    """What must be the same in all processes."""
    major, minor, _ = platform.python_version_tuple()
    number = torch.__version__.split("+")[0]  # a build for GPUs or not
    return (("Python", f"{major}.{minor}"), ("ablate", VERSION), ("torch", number))


def pack(shared: Shared | None, device: str, threads: int | None = None) -> tuple[bytes, Label]:
    """What jobs share as bytes, and its label."""
    parcel = pickle.dumps(shared, protocol=5)
    digest = hashlib.sha256(parcel).hexdigest()
    return parcel, Label(digest, device, threads or torch.get_num_threads(), versions())


_open: dict[Label, Any] = {}


def _unpacked(parcel: Any, label: Label) -> Any:
    """What jobs share, unpacked when the first of them comes. parcel: anything like bytes."""
    if label not in _open:
        if hashlib.sha256(parcel).hexdigest() != label.digest:
            raise UnfitError("the study's parcel was damaged on its way to a worker")
        try:
            resolve(label.device)
        except UserError as error:
            raise UnfitError(f"a worker has no such device: {error}") from None
        torch.set_num_threads(label.threads)
        shared = pickle.loads(parcel)
        while len(_open) >= MOST_OPEN:
            _open.pop(next(iter(_open)))
        _open[label] = None if shared is None else shared.on(label.device)
    return _open[label]


def sealed(job: Job) -> bytes:
    """A job as bytes. Not by the pickler of processes, which shares the memory of tensors."""
    return pickle.dumps(job, protocol=5)


def do(parcel: Any, label: Label, job: bytes) -> bytes:
    """Do a job in another process, and return its result or its failure as bytes."""
    try:
        return pickle.dumps(_done(parcel, label, job), protocol=5)
    except Exception as error:
        unfit = isinstance(error, UnfitError)
        reason = str(error) if unfit else f"{type(error).__name__}: {error}"
        return pickle.dumps(Failure(reason, unfit), protocol=5)


def _done(parcel: Any, label: Label, job: bytes) -> Any:
    if (mine := versions()) != label.versions:
        pairs = zip(label.versions, mine, strict=True)
        wrong = [
            f"{name} {theirs} here, {own} there"
            for (name, theirs), (_, own) in pairs
            if theirs != own
        ]
        raise UnfitError(f"a worker has another version than this process: {', '.join(wrong)}")
    shared = _unpacked(parcel, label)
    made: Job = pickle.loads(job)
    return made(shared)


def opened(answer: bytes) -> Any:
    """The result in an answer; raises the exception if it is a failure."""
    result = pickle.loads(answer)
    if isinstance(result, Failure):
        raise result.exception()
    return result
