"""What several commands share: their options, and how they find studies and results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.core.errors import UserError
from ablate.core.plain_text import plain
from ablate.core.unknown_names import nearest
from ablate.core.workspace import Workspace

if TYPE_CHECKING:
    from ablate.experiment.executors.place import Place
    from ablate.experiment.executors.ray_cluster import Cluster
    from ablate.results import StudyResults
    from ablate.study.definition import Study

Name = Annotated[str, typer.Argument(help="A study's name (see `ablate list`) or a .toml file.")]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", help="smoke, quick or full. Default: quick on a CPU, full on a GPU."),
]


StorageOption = Annotated[
    str,
    typer.Option(
        envvar="ABLATE_STORAGE",
        help="Where machines share the search: postgresql://user:password@host/database.",
    ),
]
TrackingOption = Annotated[
    str,
    typer.Option(
        envvar="MLFLOW_TRACKING_URI", help="Where machines share the record: an MLflow server."
    ),
]
RayOption = Annotated[
    str,
    typer.Option(
        envvar="ABLATE_RAY",
        help="Draw on a Ray cluster: host:port, ray://host:port, or auto for this machine's.",
    ),
]
CpusOption = Annotated[
    float | None,
    typer.Option(min=0.01, help="With --ray: cores for a cell, also a part of one. Default: 1."),
]
GpusOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="With --ray: GPUs for a cell, also a part of one. Default: 1, if the cluster has any.",
    ),
]
ProcessesOption = Annotated[
    int, typer.Option("--workers", min=1, help="Processes on this machine that share the work.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ExtractorOption = Annotated[
    str, typer.Option(help="inception, or a dataset's small classifier by its name.")
]
ResizeOption = Annotated[
    str, typer.Option(help="For inception: tf1 (as published FIDs), antialias or clean.")
]


@contextmanager
def ray_cluster(
    address: str, cpus: float | None, gpus: float | None, device: str
) -> Iterator[Cluster | None]:
    """The cluster of --ray, for the block; None without one."""
    if not address:
        for flag, value in (("--cpus-per-cell", cpus), ("--gpus-per-cell", gpus)):
            if value is not None:
                raise UserError(f"{flag} {value:g}: goes with --ray")
        yield None
        return
    from ablate.experiment.executors.ray_cluster import Cluster

    cluster = Cluster(address, cpus, gpus, device)
    try:
        yield cluster
    finally:
        cluster.close()


@contextmanager
def work_place(
    workers: int, ray: str, cpus: float | None, gpus: float | None, device: str
) -> Iterator[Place]:
    """Where a command's jobs are done, as its flags say, for the block."""
    from ablate.core.device import resolve
    from ablate.experiment.executors.place import Place

    with ray_cluster(ray, cpus, gpus, device) as cluster:
        yield Place(cluster.device if cluster else resolve(device), workers, cluster)


def tracked(workspace: Workspace, tracking: str) -> Workspace:
    """The workspace with the MLflow server that machines share, if there is one, checked."""
    if not tracking:
        return workspace
    from ablate.core.errors import keep_secret
    from ablate.tracking.client import reach

    keep_secret(tracking)
    reach(tracking)
    return workspace._replace(tracking=tracking)


def shared(workspace: Workspace, storage: str, tracking: str) -> Workspace:
    """The workspace with the database and MLflow server that machines share, checked. A worker may
    start before they do: they are waited for, as later."""
    if bool(storage) != bool(tracking):
        missing = "--tracking-uri" if storage else "--storage"
        raise UserError(f"{missing} is missing: machines share both the search and the record")
    if not storage:
        return workspace
    from ablate.core.errors import keep_secret
    from ablate.core.patience import longest_wait
    from ablate.search import database
    from ablate.tracking.client import reach

    keep_secret(storage)
    keep_secret(tracking)
    database.check(storage, _waiting)
    reach(tracking, longest_wait(), _waiting)
    return workspace._replace(tracking=tracking, storage=storage)


def _waiting(reason: str) -> None:
    from ablate.core.patience import longest_wait

    line = f"{plain(' '.join(reason.split()))}: waiting for up to {longest_wait():g} s"
    print(line, file=sys.stderr, flush=True)


def read_study(
    workspace: Workspace, name: str, budget: str | None, device: str, trials: int | None = None
) -> Study:
    from ablate.study import find as studies
    from ablate.study.extractors import with_extractor

    default = "quick" if device == "cpu" else "full"
    study = studies.read(studies.find(workspace, name), budget or default, trials)
    return with_extractor(study, device)


def find_results(workspace: Workspace, name: str, budget: str | None) -> StudyResults:
    from ablate.tracking.reader import Reader

    name = Path(name).stem if name.endswith(".toml") else name
    reader = Reader(workspace)
    record = reader.latest(name, budget)
    if record is None:
        which = f" with budget {budget}" if budget else ""
        near = [] if reader.latest(name) else nearest(name, reader.names())
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UserError(f"study {name!r} has not been run{which} under {workspace.root}{hint}")
    return record
