"""What a cell costs besides its work, by where it is done.

    python -m tests.benchmarks.executors [CELLS] [--seconds 0.001 0.1 1] [--places here ray-2]

Fake cells that sleep. `jobs`: an executor alone. `study`: a real study of random search with one
seed, proposed and recorded in SQLite files as always, without pictures. Milliseconds a cell, less
what its share of the sleep takes at best. Starting processes and Ray counts in neither.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ablate.core.workspace import Workspace
from ablate.experiment.executors.executor import Executor, InProcess
from ablate.experiment.executors.pool import Pool
from tests.benchmarks.executors_of_others import OTHERS
from tests.benchmarks.fake_cells import Sleep, install
from tests.benchmarks.overhead import STUDY, Clock
from tests.support.studies import copy_of_record, copy_of_search

PLACES = ("here", "pool-2", "pool-4", "ray-2", "ray-4")
RIVALS = ("postgres-2", "postgres-4", "n_jobs-2", "n_jobs-4", "ray-tune-2", "ray-tune-4")


@contextlib.contextmanager
def executor_of(place: str) -> Iterator[Executor]:
    """An executor whose processes have all begun."""
    kind, _, count = place.partition("-")
    with contextlib.ExitStack() as stack:
        executor: Executor
        if kind == "here":
            executor = InProcess()
        elif kind == "pool":
            executor = Pool(None, ["cpu"] * int(count))
        else:
            from ray.cluster_utils import Cluster as Local

            from ablate.experiment.executors.on_ray import OnRay
            from ablate.experiment.executors.ray_cluster import Cluster

            os.environ |= {"RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}
            local = Local(
                initialize_head=True,
                head_node_args={"num_cpus": int(count), "include_dashboard": False},
            )
            stack.callback(local.shutdown)
            cluster = Cluster(local.address, None, None)
            stack.callback(cluster.close)
            executor = OnRay(None, cluster)
        stack.callback(executor.close)
        for future in [executor.submit(Sleep(1.0)) for _ in range(2 * executor.slots)]:
            future.result()
        yield executor


def jobs_alone(executor: Executor, cells: int, seconds: float) -> float:
    """Seconds for all jobs."""
    began = time.perf_counter()
    futures = [executor.submit(Sleep(seconds)) for _ in range(cells)]
    for future in futures:
        future.result()
    return time.perf_counter() - began


def whole_study(executor: Executor, cells: int, seconds: float) -> float:
    """Seconds from the first claim to the last result."""
    from ablate.experiment import worker
    from ablate.experiment.prepare import prepare
    from ablate.study.find import find, read

    install(seconds)
    with tempfile.TemporaryDirectory() as scratch:
        workspace, clock = Workspace(Path(scratch)), Clock()
        (workspace.root / "studies").mkdir()
        file = workspace.root / "studies" / "overhead.toml"
        text = STUDY.format(trials=cells).replace("seeds = [0]", "seeds = [0]\nconfirm = false")
        file.write_text(text)
        copy_of_record(workspace.record)
        copy_of_search(workspace.search)
        setup = prepare(read(find(workspace, "overhead"), "quick"), workspace)
        outcome = worker.run(setup, workspace, clock, executor)
        if outcome.ran != cells or outcome.failures:  # else its time says nothing
            raise RuntimeError(f"{outcome.ran} of {cells} trials; {outcome.failures[:1]}")
    return clock.last - clock.first


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cells", nargs="?", type=int, default=1000)
    parser.add_argument("--seconds", nargs="+", type=float, default=(0.001, 0.1, 1.0))
    parser.add_argument("--places", nargs="+", default=(*PLACES, *RIVALS))
    asked = parser.parse_args()
    print("| where | cell | cells | jobs | study |\n|---|---|---|---|---|", flush=True)
    for place in asked.places:
        name, _, count = place.rpartition("-")
        if name in OTHERS:
            for seconds in asked.seconds:
                over = OTHERS[name](int(count), asked.cells, seconds)
                print(
                    f"| {place} | {seconds:g} s | {asked.cells:,} | | {over:.1f} ms |", flush=True
                )
            continue
        with executor_of(place) as executor:
            for seconds in asked.seconds:
                ideal = seconds / executor.slots
                took = [work(executor, asked.cells, seconds) for work in (jobs_alone, whole_study)]
                spent = " | ".join(f"{1000 * (each / asked.cells - ideal):.1f} ms" for each in took)
                print(f"| {place} | {seconds:g} s | {asked.cells:,} | {spent} |", flush=True)


if __name__ == "__main__":
    main()
