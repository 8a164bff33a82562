"""Executors: what all of them are, and the one in this process.

A job is a pure function of what all jobs share, such as a study with its bundle. So it may be done
anywhere, and again if the process that does it dies.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

import torch

from ablate.core.errors import UserError

Job = Callable[[Any], Any]
"""What is shared -> the result. A job for other processes can be pickled."""

DEATHS = 10
"""Processes killed at the same job before it fails: it may need more memory than there is.
Many, because preemptible machines may be stopped at any time."""


class JobError(Exception):
    """A job raised an exception in another process; the message begins with its type."""


class KilledError(Exception):
    """Too many processes were killed at a job."""


class UnfitError(UserError):
    """The other processes cannot do any job: they have another version, or no GPU."""


class Executor(Protocol):
    """Does jobs that share something."""

    @property
    def slots(self) -> int:
        """How many jobs it does at once; more may be submitted, and wait."""

    @property
    def threads(self) -> int:
        """Of torch, in each process that does jobs: the last bits of results depend on it."""

    @property
    def here(self) -> bool:
        """Whether jobs are done in this process, at once."""

    @property
    def local(self) -> bool:
        """Whether jobs are done on this machine, where they can read and write its files."""

    def submit(self, job: Job) -> Future[Any]:
        """Do a job; the future has its result or its exception."""

    def close(self) -> None:
        """Cancel what is not done."""


class InProcess:
    """Does each job at once, in this process."""

    slots, here, local = 1, True, True

    def __init__(self, shared: Any = None) -> None:
        self._shared = shared

    @property
    def threads(self) -> int:
        return torch.get_num_threads()

    def submit(self, job: Job) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(job(self._shared))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None: ...
