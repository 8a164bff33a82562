"""Random numbers by sample: those of sample i of seed r depend only on (r, i).

They do not depend on batch size, order, worker, device or configuration, so two configurations
with the same seeds are compared on the same noise.

The generators are numpy's, seeded with 128 bits. torch's generator on the CPU keeps 32 bits of a
seed, so that some two of 50,000 samples would easily share their noise. SFC64 draws normals
twice as fast as Philox.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

STREAMS = 2
"""Version of the random numbers, part of every protocol: it rises whenever the numbers change."""

MOST_LANES = 8  # threads that draw; more only wait for each other
AHEAD = 8_000_000  # numbers that are drawn ahead, 32 MB


def stream(seed: int, index: int, purpose: str) -> np.random.Generator:
    """The generator of one sample for one purpose (`start` or `steps`)."""
    digest = hashlib.blake2b(f"{purpose}/{seed}/{index}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest, "big")))


class StepNoise:
    """z of step j for a batch of samples, for j in order; drawn on the CPU, then moved.

    As many threads draw as torch uses: numpy lets go of the interpreter's lock meanwhile, and each
    sample has its own generator, so the numbers do not depend on how many there are. They draw many
    steps at a time, because torch's own threads keep the cores busy for a while after each call.
    """

    def __init__(
        self,
        seed: int,
        indices: Sequence[int],
        shape: Sequence[int],
        device: str = "cpu",
        steps: int = 1,
    ) -> None:
        """steps: how many will be asked for; those beyond it are drawn one by one."""
        self._streams = [stream(seed, i, "steps") for i in indices]
        self._shape, self._device, self._left = (len(indices), *shape), device, steps
        self._ahead = torch.empty(0)
        self._lanes = max(1, min(torch.get_num_threads(), len(indices), MOST_LANES))
        self._others = ThreadPoolExecutor(self._lanes - 1) if self._lanes > 1 else None

    def __call__(self, step: int) -> Tensor:
        if not len(self._ahead):
            self._ahead = self._draw_ahead()
        z, self._ahead = self._ahead[0], self._ahead[1:]
        return z.to(self._device)

    def _draw_ahead(self) -> Tensor:
        """z of as many steps as are left and fit the memory, at least one."""
        count = max(1, min(self._left, AHEAD // max(1, math.prod(self._shape))))
        self._left -= count
        ahead = torch.empty(count, *self._shape)
        rows, waiting = ahead.numpy(), []
        if self._others is not None:
            lanes = range(1, self._lanes)
            waiting = [self._others.submit(self._fill, rows, lane) for lane in lanes]
        self._fill(rows, 0)
        for other in waiting:
            other.result()
        return ahead

    def _fill(self, ahead: npt.NDArray[np.float32], lane: int) -> None:
        """Draw every so many-th sample, beginning with number `lane`."""
        mine = slice(lane, None, self._lanes)
        for z in ahead:
            for row, generator in zip(z[mine], self._streams[mine], strict=True):
                generator.standard_normal(dtype=np.float32, out=row)


def start_numbers(seed: int, indices: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
    """The numbers of an initialisation: u uniform on [0, 1), [B]; z standard normal, [B, size]."""
    u, z = torch.empty(len(indices)), torch.empty(len(indices), size)
    for row, index in enumerate(indices):
        generator = stream(seed, index, "start")
        u[row] = generator.random(dtype=np.float32)
        generator.standard_normal(dtype=np.float32, out=z[row].numpy())
    return u, z
