"""Processes on this machine that do jobs. A process that dies is replaced, and its job done again.

Each process has a thread here, which hands it one job at a time.
"""

from __future__ import annotations

import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ablate.experiment.executors.executor import DEATHS, Job, KilledError
from ablate.experiment.executors.parcel import Label, Shared, do, opened, pack, sealed

POLL = 0.5
"""Seconds between a process's checks whether its parent is still there."""

GRACE = 10.0
"""Seconds in which a process that is stopped may write what it must, as a training's checkpoint."""


class _Waiting(NamedTuple):
    job: bytes
    future: Future[Any]


class _Process(NamedTuple):
    process: BaseProcess
    pipe: Connection


class Pool:
    """Does jobs in processes on this machine, one for each device that is given."""

    here, local = False, True

    def __init__(
        self, shared: Shared | None, devices: Sequence[str], threads: int | None = None
    ) -> None:
        """threads: of each process; by default as many as here, for the same bits."""
        self.slots, self.threads = len(devices), threads or torch.get_num_threads()
        self._folder = tempfile.TemporaryDirectory(prefix="ablate-parcel-")
        self._parcel = Path(self._folder.name, "parcel")
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._running: dict[int, _Process] = {}
        self._threads = []
        for place, device in enumerate(devices):
            parcel, label = pack(shared, device, self.threads)
            if place == 0:
                self._parcel.write_bytes(parcel)
            serve = threading.Thread(target=self._serve, args=(place, label), daemon=True)
            self._threads.append(serve)
            serve.start()

    def submit(self, job: Job) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.put(_Waiting(sealed(job), future))
        return future

    def close(self) -> None:
        """Stop the processes, and cancel what is not done."""
        self._closed.set()
        with suppress(queue.Empty):
            while True:
                if (waiting := self._jobs.get_nowait()) is not None:
                    waiting.future.cancel()
        for _ in self._threads:
            self._jobs.put(None)
        running = list(self._running.values())
        for each in running:
            each.process.terminate()
        end = time.monotonic() + GRACE
        for each in running:
            each.process.join(max(0.0, end - time.monotonic()))
            each.process.kill()
        for thread in self._threads:
            thread.join()
        self._folder.cleanup()

    # --- one process -------------------------------------------------------------------------

    def _serve(self, place: int, label: Label) -> None:
        """Hand jobs to one process, until there is nothing more to do."""
        while (waiting := self._jobs.get()) is not None:
            if not waiting.future.set_running_or_notify_cancel():
                continue
            try:
                self._do(place, label, waiting)
            except Exception as error:  # no process can be started
                waiting.future.set_exception(error)
        if (last := self._running.pop(place, None)) is not None:
            _end(last)

    def _do(self, place: int, label: Label, waiting: _Waiting) -> None:
        code: int | None = None
        for _ in range(DEATHS):
            if self._closed.is_set():
                break
            if place not in self._running:
                self._running[place] = _start(self._parcel, label)
            process = self._running[place]
            if self._closed.is_set():
                process.process.kill()
            try:
                process.pipe.send_bytes(waiting.job)
                answer = process.pipe.recv_bytes()
            except (EOFError, OSError):
                code = _end(self._running.pop(place))
                continue
            try:
                waiting.future.set_result(opened(answer))
            except Exception as error:
                waiting.future.set_exception(error)
            return
        waiting.future.set_exception(
            KilledError(f"its process was killed {DEATHS} times{_how(code)}")
        )


def _start(parcel: Path, label: Label) -> _Process:
    context = get_context("spawn")  # a fork would have the locks of this process's threads
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(theirs, parcel, label, os.getpid()), daemon=True, name="ablate worker"
    )
    process.start()
    theirs.close()
    return _Process(process, ours)


def _end(running: _Process) -> int | None:
    """End a process, and return its exit code."""
    running.pipe.close()
    running.process.join(POLL)
    if running.process.is_alive():
        running.process.kill()
        running.process.join()
    return running.process.exitcode


def _how(code: int | None) -> str:
    """What an exit code says of a death."""
    if code is None or code >= 0:
        return ""
    memory = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
    return f" ({signal.Signals(-code).name}{memory})"


def _work(pipe: Connection, file: Path, label: Label, parent: int) -> None:
    """In the process: do jobs as long as the parent is there. It stops this process on Ctrl-C, and
    what runs is left as by Ctrl-C here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    parcel: bytes | None = None
    with suppress(EOFError, OSError, KeyboardInterrupt):  # the parent is gone, or stops this
        while True:
            job = pipe.recv_bytes()
            parcel = file.read_bytes() if parcel is None else parcel
            pipe.send_bytes(do(parcel, label, job))


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
