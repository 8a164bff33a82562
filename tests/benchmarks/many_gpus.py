"""What one driver can feed: a simulation of a study on many GPUs, from measured overheads.

    python -m tests.benchmarks.many_gpus --driver-ms 20 --growth-ms 0.001 [--gpus 1000]

The driver is one server: it proposes and records one cell at a time, and each cell costs it
`driver-ms`, and `growth-ms` more for each cell that is in the record. Every GPU draws one cell at a
time; cells take a log-normal time around their mean, and one GPU in twenty is half as fast. Trials
of `seeds` cells, drawn one after another, end in the order of their proposal. As in `Flights`,
twice as many trials as GPUs are in flight, or as many (`--window 1`) if the method learns. Prints,
by the cells' mean length, how much of the GPUs' time is spent on cells.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from dataclasses import dataclass

SPREAD = 0.2
"""Standard deviation of the logarithm of a cell's length."""

SLOW, HALF = 20, 2.0
"""One GPU of so many is slower by this factor."""


@dataclass(frozen=True)
class Cluster:
    gpus: int
    cells: int
    seeds: int
    driver: float  # seconds of the driver for a cell
    growth: float  # more of them for each cell in the record
    window: int  # trials in flight for each GPU


@dataclass(frozen=True)
class Spent:
    wall: float
    busy: float  # share of the GPUs' time
    driver: float  # share of the driver's time


def simulate(cluster: Cluster, seconds: float, seed: int = 0) -> Spent:
    """A study whose cells take so many seconds."""
    rng = random.Random(seed)
    pace = [HALF if gpu % SLOW == 0 else 1.0 for gpu in range(cluster.gpus)]
    trials = -(-cluster.cells // cluster.seeds)
    left = [cluster.seeds] * trials
    flying: deque[int] = deque()  # trials begun and not ended, in order of proposal
    idle = list(range(cluster.gpus))
    waiting: deque[int] = deque()  # trials with a cell that wants a GPU
    running: list[tuple[float, int, int]] = []  # (end, GPU, trial)
    begun = recorded = 0
    now = worked = drove = 0.0

    def drive() -> None:
        nonlocal now, drove
        cost = cluster.driver + cluster.growth * recorded
        now, drove = now + cost, drove + cost

    def start(trial: int) -> None:
        nonlocal worked
        gpu = idle.pop()
        length = seconds * rng.lognormvariate(-(SPREAD**2) / 2, SPREAD) * pace[gpu]
        worked += length
        heapq.heappush(running, (now + length, gpu, trial))

    while begun < trials or flying:
        while flying and left[flying[0]] == 0:
            flying.popleft()
        if begun < trials and len(flying) < cluster.window * cluster.gpus:
            flying.append(begun)
            waiting.append(begun)
            begun += 1
        elif running:
            end, gpu, trial = heapq.heappop(running)
            now = max(now, end)
            drive()  # its result is recorded, and its next cell proposed
            recorded += 1
            idle.append(gpu)
            left[trial] -= 1
            if left[trial]:
                waiting.append(trial)
        while idle and waiting:
            start(waiting.popleft())
    return Spent(now, worked / (cluster.gpus * now), drove / now)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver-ms", type=float, required=True)
    parser.add_argument("--growth-ms", type=float, default=0.0)
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--window", type=int, default=2)
    parser.add_argument("--seconds", nargs="+", type=float, default=(1, 3, 10, 30, 100, 300, 1000))
    asked = parser.parse_args()
    cluster = Cluster(
        asked.gpus,
        asked.cells,
        asked.seeds,
        asked.driver_ms / 1000,
        asked.growth_ms / 1000,
        asked.window,
    )
    print("| cell | hours | GPUs busy | driver busy |\n|---|---|---|---|")
    for seconds in asked.seconds:
        spent = simulate(cluster, seconds)
        print(
            f"| {seconds:g} s | {spent.wall / 3600:.1f} | {spent.busy:.0%} | {spent.driver:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
