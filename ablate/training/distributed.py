"""Several processes as one: who I am, my share of a batch, and what all agree on.

Started by torchrun; without it everything here is as for one process of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ablate.core.errors import UserError

T = TypeVar("T")


def _several() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def size() -> int:
    return distributed.get_world_size() if _several() else 1


def rank() -> int:
    return distributed.get_rank() if _several() else 0


@contextmanager
def joined(device: str) -> Iterator[str]:
    """Meet the other processes of torchrun, if any; gives the device of this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield device
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    _import_before_the_group()
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield device
    finally:
        _leave()


_wrappers: WeakSet[DistributedDataParallel] = WeakSet()
"""Wrapped models that hold the process group."""


def _import_before_the_group() -> None:
    """Import a module whose functions have the process group of the time of import as a default.

    DistributedDataParallel imports it when it is first used; the module would then hold the group
    for as long as the process lives.
    """
    import_module("torch.distributed.nn.functional")


def _leave() -> None:
    """Destroy the process group and wait until its threads have ended.

    A gloo thread drops its references to a collective's tensors shortly after the collective
    returns, and needs Python's lock for that. If the interpreter is shutting down by then, the
    process aborts with "terminate called without an active exception" (pytorch issue 190489).
    gloo joins its threads when the last reference to the group goes. Two kinds outlive
    `destroy_process_group`: those of DistributedDataParallel, which reference cycles and the
    frames of an exception keep alive, and default arguments, see `_import_before_the_group`.
    """
    for wrapper in _wrappers:
        for name in ("process_group", "reducer", "logger"):  # those that pickling it leaves out
            vars(wrapper).pop(name, None)
    distributed.destroy_process_group()


def check_batch(batch: int) -> None:
    """Equal shares: a mean of their means is then the mean of the batch."""
    if batch % size():
        raise UserError(f"batch = {batch} cannot be shared equally by {size()} processes")


def share(batch: int) -> slice:
    """The images of a batch that this process sees."""
    each = batch // size()
    return slice(rank() * each, (rank() + 1) * each)


def wrapped(model: nn.Module, device: str) -> nn.Module:
    """Its gradients are then means over the processes."""
    if size() == 1:
        return model
    index = torch.device(device).index
    ids = None if index is None else [index]
    wrapper = DistributedDataParallel(model, device_ids=ids, broadcast_buffers=False)
    _wrappers.add(wrapper)
    return wrapper


def gathered(mine: Tensor) -> Tensor:
    """The whole batch's from each process's share, in order."""
    if size() == 1:
        return mine
    parts = [torch.empty_like(mine) for _ in range(size())]
    distributed.all_gather(parts, mine.contiguous())
    return torch.cat(parts)


def agreed(value: T) -> T:
    """The first process's value, in all of them."""
    if size() == 1:
        return value
    box = [value]
    distributed.broadcast_object_list(box, src=0)
    return box[0]
