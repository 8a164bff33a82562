"""The identity of a process, and whether the process that a lease names is still there."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from pathlib import Path


def new_owner() -> str:
    """A name for one set of leases of this process: machine, process and a random part."""
    return f"{_machine()} {_process(os.getpid())} {uuid.uuid4().hex}"


def is_gone(owner: str) -> bool:
    """Whether an owner was a process of this machine that has ended. Processes of other machines
    cannot be checked: False."""
    machine, process, _ = owner.split()
    if machine != _machine():
        return False
    pid = int(process.split(":")[0])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _process(pid) != process


def _machine() -> str:
    """This machine since its last boot, and this container on it."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "-".join(parts)


def _process(pid: int) -> str:
    """A process's number and start time: the system reuses numbers."""
    try:
        began = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        began = "-"
    return f"{pid}:{began}"
