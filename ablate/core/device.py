"""Which device to work on, and memory that stays with the process.

torch is imported only where a GPU may be present: choosing a CPU takes no time.
"""

from __future__ import annotations

import ctypes
import sys

from ablate.core.errors import UserError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's malloc.h."""

DRIVERS = ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so")
"""Libraries that come with a GPU's driver, by NVIDIA and AMD."""


def resolve(name: str) -> str:
    """The device of this name, checked; `auto` is the first GPU if there is one, else the CPU."""
    _keep_freed_memory()
    if name == "auto":
        return "cuda" if _has_gpu() else "cpu"
    if name == "cpu":
        return name
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device {name}: not auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {name}: this machine has {torch.cuda.device_count()} GPUs")
    return name


def _has_gpu() -> bool:
    """Whether torch can use a GPU; torch is asked only if a driver is installed."""
    if "torch" not in sys.modules and not any(map(_loads, DRIVERS)):
        return False
    import torch

    return torch.cuda.is_available()


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def spread(name: str, workers: int) -> list[str]:
    """A device for each of several workers: GPU after GPU, if none is named."""
    if (device := resolve(name)) != "cuda":
        return [device] * workers
    import torch

    return [f"cuda:{place % torch.cuda.device_count()}" for place in range(workers)]


def _keep_freed_memory() -> None:
    """Let glibc reuse the memory of a network's layers instead of giving it back after each.

    glibc returns blocks of megabytes to the system at once, and asking for them again costs a page
    fault each: a tenth of a network's time on a CPU. No other C library has the switch.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        if not libc.mallopt(M_MMAP_THRESHOLD, 1 << 30):
            libc.mallopt(M_MMAP_THRESHOLD, 1 << 25)  # the most that older ones take
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
