"""Which device to work on, and its memory kept at hand."""

from __future__ import annotations

import ctypes

import torch

from ablate.core.errors import UserError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h."""


def resolve(name: str) -> str:
    """`auto` is the first GPU if there is one."""
    _keep_freed_memory()
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device {name}: not auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {name}: this machine has {torch.cuda.device_count()} GPUs")
    return name


def spread(name: str, workers: int) -> list[str]:
    """A device for each of several workers: GPU after GPU, if none is named."""
    if resolve(name) == "cuda":
        return [f"cuda:{place % torch.cuda.device_count()}" for place in range(workers)]
    return [resolve(name)] * workers


def _keep_freed_memory() -> None:
    """Let glibc reuse the memory of a network's layers instead of giving it back after each.

    It hands blocks of megabytes back to the system at once, and asking for them anew costs a
    fault a page: a tenth of a network's time on a CPU. No other C library has the switch.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        if not libc.mallopt(M_MMAP_THRESHOLD, 1 << 30):
            libc.mallopt(M_MMAP_THRESHOLD, 1 << 25)  # the most that older ones take
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
