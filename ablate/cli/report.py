"""The command that writes reports: of all studies, of one, of several with their comparison."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.app import app
from ablate.cli.options import TrackingOption, find_results, tracked

if TYPE_CHECKING:
    from ablate.core.workspace import Workspace
    from ablate.results import StudyResults

PATIENCE = 3.0
"""Seconds between two looks at the record while watching."""

ReportBudget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        help="smoke, quick or full. Default: of each study the budget that was last worked on.",
    ),
]


@app.command(epilog="Example: ablate report digits-adls digits-asams")
def report(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Studies; several are compared, too. All that were run if left out."),
    ] = None,
    budget: ReportBudget = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write again when the record changes, until Ctrl-C.")
    ] = False,
    tracking_uri: TrackingOption = "",
) -> None:
    """Write a page, tables and figures of each study, from the MLflow record alone.

    A report goes to reports/<study>/, of another budget than quick to reports/<study>-<budget>/.
    reports/index.html leads to all of them. Several studies get a page that compares them, too, and
    are refused if studies of one dataset were not measured alike.
    """
    workspace = tracked(context.obj, tracking_uri)
    if not watch:
        _write(workspace, names or [], budget)
        return
    try:
        for _ in _changes(workspace, names or [], budget):
            _write(workspace, names or [], budget)
            print("watching the record; Ctrl-C ends it", flush=True)
    except KeyboardInterrupt:
        print("stopped watching; the reports stay")


def _write(workspace: Workspace, names: list[str], budget: str | None) -> None:
    """Write the reports, and print the path of each page."""
    from ablate.report.compare import by_dataset, write_comparison
    from ablate.report.render import publish
    from ablate.tracking.reader import Reader
    from ablate.tracking.study_note import attach_report

    reader = Reader(workspace)
    records = _records(workspace, names, budget)
    several = len(names) > 1
    if several:
        by_dataset(records)  # refuses before anything is written
    for record in records:
        page = publish(record, reader.fetch, workspace.reports)
        attach_report(workspace, record, page)
        print(page, flush=True)
    if several:
        print(write_comparison(records, workspace.reports))
    if len(records) > 1:
        print(workspace.reports / "index.html")


def _records(workspace: Workspace, names: list[str], budget: str | None) -> list[StudyResults]:
    """The studies of these names; without names all that were run with the budget."""
    from ablate.core.errors import UserError
    from ablate.tracking.reader import Reader

    if names:
        return [find_results(workspace, name, budget) for name in names]
    reader = Reader(workspace)
    found = [record for name in reader.names() if (record := reader.latest(name, budget))]
    if not found and budget:
        raise UserError(f"no study has been run with budget {budget} under {workspace.root}")
    return found


def _changes(workspace: Workspace, names: list[str], budget: str | None) -> Iterator[None]:
    """Yield now, and again whenever what the reports show has changed."""
    seen: object = None
    while True:
        now = _state(workspace, names, budget)
        if now != seen:
            seen = now
            yield
        time.sleep(PATIENCE)


def _state(workspace: Workspace, names: list[str], budget: str | None) -> object:
    """Something that differs when the record does: a local file's times, else the results."""
    if not workspace.is_local:
        return _records(workspace, names, budget)
    files = (workspace.record, workspace.record.with_name(f"{workspace.record.name}-wal"))
    return [(file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists()]
