"""Images a second by two processes of one thread each, beside one of two threads.

    python -m tests.benchmarks.workers_or_threads [BUNDLE …] [--seconds 150]

Needs two idle cores. Each bundle in turn, in rounds in which both ways draw the same images with a
few-step solver and extract their features, as studies do, in shards. The processes have all begun,
with the bundle loaded, before a clock starts. Prints the fastest round of each way, and
stops when the seconds are over: a bundle may then have no row.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from ablate.core.workspace import Workspace
from ablate.experiment.executors.executor import Executor, InProcess
from ablate.experiment.executors.pool import Pool
from ablate.experiment.portable import Portable, portable
from ablate.experiment.shards import ShardJob
from ablate.experiment.showcase import setup_of_one
from ablate.generate.draw import most_flips
from ablate.generate.presets import few_step_settings
from ablate.models import bundle as bundles

BUNDLES = ("digits", "mnist", "fashion", "kmnist", "cifar10", "cifar10-large")
SHARD, SHARDS, LEVELS = 64, 4, 4
"""Images of a shard, shards of a round, and levels."""

ROUNDS = 5
"""Most rounds of a bundle; the fastest counts."""


def jobs_of(bundle: str, folder: Path) -> tuple[list[ShardJob], Portable]:
    """The shards of a round, and what they share."""
    workspace, most = Workspace(folder), SHARD * SHARDS
    card = bundles.read_card(bundles.find(bundle, workspace))
    settings = few_step_settings(LEVELS, (card.s_min, card.s_max), None)
    setup = setup_of_one(workspace, bundle, settings, most, 0, "cpu")
    flips = most_flips(most, card.shape)
    firsts = range(0, most, SHARD)
    jobs = [ShardJob(settings, 0, first, first + SHARD, most, flips) for first in firsts]
    return jobs, portable(setup)


def seconds(executor: Executor, jobs: list[ShardJob]) -> float:
    """Seconds of a round."""
    began = time.perf_counter()
    for future in [executor.submit(job) for job in jobs]:
        future.result()
    return time.perf_counter() - began


def row(bundle: str, folder: Path, end: float) -> str:
    """Images a second of both ways."""
    jobs, shared = jobs_of(bundle, folder)
    threads = InProcess(shared.on("cpu"))
    workers = Pool(shared, ["cpu", "cpu"], 1)
    try:
        fastest = [float("inf")] * 2
        for round in range(ROUNDS + 1):
            took = [seconds(threads, jobs), seconds(workers, jobs)]
            if round:  # in the first, processes begin
                fastest = [min(pair) for pair in zip(fastest, took, strict=True)]
            if round and time.monotonic() > end:
                break
    finally:
        workers.close()
    rates = [SHARD * SHARDS / each for each in fastest]
    numbers = " | ".join(f"{rate:,.1f}" for rate in rates)
    return f"| {bundle} | {numbers} | {rates[1] / rates[0]:.2f} | {round} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bundles", nargs="*", default=BUNDLES)
    parser.add_argument("--seconds", type=float, default=150.0)
    asked = parser.parse_args()
    torch.set_num_threads(2)
    began = time.monotonic()
    print("| bundle | 1 x 2 threads | 2 x 1 thread | ratio | rounds |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number, bundle in enumerate(asked.bundles, 1):
            end = began + asked.seconds * number / len(asked.bundles)
            if time.monotonic() > end:
                print(f"| {bundle} | no time was left |", flush=True)
                continue
            print(row(bundle, Path(folder), end), flush=True)


if __name__ == "__main__":
    main()
