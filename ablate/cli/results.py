"""Commands that show studies and their results: list, show, results, report and ui."""

from __future__ import annotations

from typing import Annotated

import typer

from ablate.cli.app import app
from ablate.cli.options import (
    BudgetOption,
    Name,
    TrackingOption,
    find_results,
    read_study,
    tracked,
)
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace


@app.command(epilog="Example: ablate results fashion-adls fashion-asams")
def results(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="A study, or several to rank together.")],
    budget: BudgetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
    tracking_uri: TrackingOption = "",
) -> None:
    """Print a study's trials: a table, best first, or JSON, by number.

    Several studies are ranked together if they were measured alike, and refused if not.
    """
    from ablate.cli.console import print_json, print_results, trial_rows
    from ablate.results import joined

    workspace = tracked(context.obj, tracking_uri)
    records = [find_results(workspace, name, budget) for name in names]
    record = joined(records) if len(records) > 1 else records[0]
    if as_json:
        print_json(trial_rows(record))
    else:
        print_results(record)


@app.command("list", epilog="Example: ablate list")
def list_studies(context: typer.Context, tracking_uri: TrackingOption = "") -> None:
    """List the studies, family by family, with their question and state."""
    from ablate.cli.console import print_groups
    from ablate.study.find import names

    workspace = tracked(context.obj, tracking_uri)
    groups: dict[str, list[tuple[str, ...]]] = {}
    states = _states(workspace)
    for name, family in names(workspace).items():
        question = _question(workspace, name)
        row = (
            (str(question), "broken")
            if isinstance(question, UserError)
            else (question, states.get(name, "not run"))
        )
        groups.setdefault(family, []).append((name, *row))
    print_groups(["study", "question", "state"], list(groups.values()))


def _question(workspace: Workspace, name: str) -> str | UserError:
    """The study's question, or what is wrong with its file: one must not hide the others."""
    from ablate.study.find import find

    try:
        return find(workspace, name).question
    except UserError as error:
        return error


def _states(workspace: Workspace) -> dict[str, str]:
    """Study -> how far it is; from a local file at once, from a server through MLflow."""
    if not workspace.has_record():
        return {}
    if workspace.is_local:
        from ablate.tracking.glance import progress

        if (states := progress(workspace)) is not None:
            return states
    from ablate.tracking.reader import Reader

    reader = Reader(workspace)
    records = {name: reader.latest(name) for name in reader.names()}
    return {name: record.progress() for name, record in records.items() if record is not None}


@app.command(epilog="Example: ablate show digits-adls --budget quick")
def show(context: typer.Context, name: Name, budget: BudgetOption = None) -> None:
    """Print a study as it would be run: every default filled in, as JSON."""
    from ablate.core.device import resolve

    print(read_study(context.obj, name, budget, resolve("auto")).model_dump_json(indent=1))


@app.command(epilog="Example: ablate report digits-adls")
def report(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Studies; all that were run when left out.")
    ] = None,
    budget: BudgetOption = None,
    tracking_uri: TrackingOption = "",
) -> None:
    """Write reports/<study>/: index.html, report.md, tables and figures, from MLflow alone."""
    from ablate.report import render
    from ablate.tracking.reader import Reader

    workspace = tracked(context.obj, tracking_uri)
    reader = Reader(workspace)
    known = [name for name in reader.names() if reader.latest(name, budget) is not None]
    for name in names or known:
        record = find_results(workspace, name, budget)
        print(render.write(record, reader.fetch, workspace.reports / record.name))


@app.command(epilog="Example: ablate ui --port 5000")
def ui(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = 5000,
) -> None:
    """Open the MLflow UI over this root's studies (Ctrl-C ends it)."""
    from ablate.cli.ui import serve

    serve(context.obj, port)
