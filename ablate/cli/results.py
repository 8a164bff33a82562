"""Commands that show studies and their results: list, show, results and ui."""

from __future__ import annotations

from typing import Annotated

import typer

from ablate.cli.app import app
from ablate.cli.options import (
    BudgetOption,
    JsonOption,
    Name,
    TrackingOption,
    find_results,
    read_study,
    tracked,
)
from ablate.core.errors import UserError


@app.command(epilog="Example: ablate results fashion-adls fashion-asams")
def results(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="A study, or several to rank together.")],
    budget: BudgetOption = None,
    as_json: JsonOption = False,
    tracking_uri: TrackingOption = "",
) -> None:
    """Print a study's trials: a table, best first, or JSON, by number.

    Several studies are ranked together if they were measured alike, and refused if not.
    """
    from ablate.cli.console import print_json, trial_rows
    from ablate.results import joined

    workspace = tracked(context.obj, tracking_uri)
    records = [find_results(workspace, name, budget) for name in names]
    record = joined(records) if len(records) > 1 else records[0]
    if as_json:
        print_json(trial_rows(record))
        return
    from ablate.cli.results_table import print_results

    print_results(record)


@app.command("list", epilog="Example: ablate list 'fashion-*'")
def list_studies(
    context: typer.Context,
    filter: Annotated[
        str, typer.Argument(help="Part of a name, or a pattern such as 'fashion-*'.")
    ] = "",
    as_json: JsonOption = False,
    tracking_uri: TrackingOption = "",
) -> None:
    """List the studies, family by family, with their question and state."""
    from ablate.cli.console import print_groups, print_json
    from ablate.cli.listing import by_family, matching

    studies = matching(tracked(context.obj, tracking_uri), filter)
    if as_json:
        print_json([each._asdict() for each in studies])
    else:
        print_groups(["study", "question", "state"], by_family(studies))


@app.command(epilog="Example: ablate show digits-adls --budget quick")
def show(
    context: typer.Context,
    name: Name,
    budget: BudgetOption = None,
    toml: Annotated[
        bool, typer.Option("--toml", help="As a study file, to be edited and run.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, which is the default.")] = False,
) -> None:
    """Print a study as it would be run: every default filled in, as JSON."""
    from ablate.cli.console import print_json
    from ablate.core.device import resolve
    from ablate.study import find as studies
    from ablate.study.written import study_text

    if toml and as_json:
        raise UserError("--toml and --json: give one of them")
    if toml:
        print(study_text(studies.find(context.obj, name), budget), end="")
    else:
        print_json(read_study(context.obj, name, budget, resolve("auto")).model_dump(mode="json"))


@app.command(epilog="Example: ablate ui --port 5000")
def ui(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = 5000,
) -> None:
    """Open the MLflow UI over this root's studies (Ctrl-C ends it)."""
    from ablate.cli.ui import serve

    serve(context.obj, port)
