"""Random numbers by sample: those of sample i of seed r depend only on (r, i).

They do not depend on batch size, order, worker, device or configuration, so two configurations
with the same seeds are compared on the same noise.

The generators are numpy's, seeded with 128 bits. torch's generator on the CPU keeps 32 bits of a
seed, so that some two of 50,000 samples would easily share their noise. SFC64 draws normals
twice as fast as Philox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

STREAMS = 2
"""Version of the random numbers, part of every protocol: it rises whenever the numbers change."""


def stream(seed: int, index: int, purpose: str) -> np.random.Generator:
    """The generator of one sample for one purpose (`start` or `steps`)."""
    digest = hashlib.blake2b(f"{purpose}/{seed}/{index}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest, "big")))


class StepNoise:
    """z of step j for a batch of samples, for j in order; drawn on the CPU, then moved."""

    def __init__(
        self, seed: int, indices: Sequence[int], shape: Sequence[int], device: str = "cpu"
    ) -> None:
        self._streams = [stream(seed, i, "steps") for i in indices]
        self._shape, self._device = tuple(shape), device

    def __call__(self, step: int) -> Tensor:
        z = torch.empty(len(self._streams), *self._shape)
        for row, generator in zip(z.numpy(), self._streams, strict=True):
            generator.standard_normal(dtype=np.float32, out=row)
        return z.to(self._device)


def start_numbers(seed: int, indices: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
    """The numbers of an initialisation: u uniform on [0, 1), [B]; z standard normal, [B, size]."""
    u, z = torch.empty(len(indices)), torch.empty(len(indices), size)
    for row, index in enumerate(indices):
        generator = stream(seed, index, "start")
        u[row] = generator.random(dtype=np.float32)
        generator.standard_normal(dtype=np.float32, out=z[row].numpy())
    return u, z
