"""How much memory do the neighbours of a whole dataset in itself take?

    python -m tests.benchmarks.neighbour_memory [IMAGES]

IMAGES (50,000) random images of 3 × 32 × 32 bytes against as many, ten neighbours each: the size of
CIFAR-10 against CIFAR-10. Prints the time and the most memory that the whole process ever held.
"""

from __future__ import annotations

import resource
import sys
import time

import torch

from ablate.metrics.neighbours import nearest

WIDTH, NEIGHBOURS = 3 * 32 * 32, 10


def main(count: int = 50_000) -> None:
    generator = torch.Generator().manual_seed(0)
    queries, others = (
        torch.randint(0, 256, (count, WIDTH), dtype=torch.uint8, generator=generator)
        for _ in range(2)
    )
    began = time.perf_counter()
    found = nearest(queries, others, NEIGHBOURS)
    took = time.perf_counter() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GB, of kB
    assert found.indices.shape == (count, NEIGHBOURS)
    print(f"{count:,} × {count:,} × {WIDTH:,}: {took:.0f} s, {most:.2f} GB at most")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
