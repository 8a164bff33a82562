"""Several processes that train one model: ranks, shares of a batch, and values all agree on.

torchrun starts them. Without it every function here behaves as for a single process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ablate.core.errors import UserError

T = TypeVar("T")

_wrappers: WeakSet[DistributedDataParallel] = WeakSet()
"""Wrapped models that hold the process group."""


def _initialised() -> bool:
    return dist.is_available() and dist.is_initialized()


def world_size() -> int:
    """Number of processes."""
    return dist.get_world_size() if _initialised() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if _initialised() else 0


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the process group of torchrun, if there is one; yields the device of this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield device
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    _import_before_the_group()
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        yield device
    finally:
        _leave()


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
    process can abort: "terminate called without an active exception" (see pytorch issue 190489).
    gloo joins its threads when the last reference to the group goes. Two kinds outlive
    `destroy_process_group`: those of DistributedDataParallel, which reference cycles and the
    frames of an exception keep alive, and default arguments, see `_import_before_the_group`.
    """
    for wrapper in _wrappers:
        for name in ("process_group", "reducer", "logger"):  # those that pickling it leaves out
            vars(wrapper).pop(name, None)
    dist.destroy_process_group()


def check_batch(batch: int) -> None:
    """Raise an error unless the processes get equal shares of a batch.

    Only then is the mean of their means the mean of the batch.
    """
    if batch % world_size():
        raise UserError(f"batch = {batch} cannot be shared equally by {world_size()} processes")


def batch_share(batch: int) -> slice:
    """The images of a batch that this process computes on."""
    each = batch // world_size()
    return slice(rank() * each, (rank() + 1) * each)


def data_parallel(model: nn.Module, device: str) -> nn.Module:
    """The model, wrapped so that its gradients are means over the processes."""
    if world_size() == 1:
        return model
    index = torch.device(device).index
    ids = None if index is None else [index]
    wrapper = DistributedDataParallel(model, device_ids=ids, broadcast_buffers=False)
    _wrappers.add(wrapper)
    return wrapper


def gathered(share: Tensor) -> Tensor:
    """The values of a whole batch from each process's share of them, in order of rank."""
    if world_size() == 1:
        return share
    parts = [torch.empty_like(share) for _ in range(world_size())]
    dist.all_gather(parts, share.contiguous())
    return torch.cat(parts)


def from_first(value: T) -> T:
    """The first process's value, in all processes."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
