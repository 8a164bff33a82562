"""Commands that run studies and tell what came of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.app import DeviceOption, app
from ablate.errors import UserError
from ablate.home import Home

if TYPE_CHECKING:
    from ablate.record import StudyRecord
    from ablate.spec import Study

Name = Annotated[str, typer.Argument(help="A study's name (see `ablate list`) or a .toml file.")]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", help="smoke, quick or full. Default: quick on a CPU, full on a GPU."),
]


@app.command(epilog="Example: ablate study digits-adls --budget smoke")
def study(
    context: typer.Context,
    name: Name,
    budget: BudgetOption = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Total number of trials, in place of the budget's.")
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Run a study, or continue it to its total number of trials."""
    from ablate import study as runner
    from ablate.console import StudyBar, console, plural
    from ablate.device import resolve
    from ablate.lab import prepare
    from ablate.record import Objective

    home: Home = context.obj
    device = resolve(device)
    spec = _read(home, name, budget, device, trials)
    try:
        lab = prepare(spec, home, device)
    except UserError as error:
        raise UserError(f"{home.find_toml(name)}: {error}") from None
    chosen = "" if budget else f", the default on {device}"
    console.print(f"{spec.name}: {spec.question}", highlight=False)
    console.print(
        f"budget {spec.budget}{chosen}: {plural(spec.trials, 'trial')} of"
        f" {plural(len(spec.seeds), 'seed')} and {spec.samples} samples, by {spec.method}",
        highlight=False,
    )
    objectives = [Objective(o.metric, o.direction) for o in spec.objectives]
    with StudyBar(spec.name, objectives) as bar:
        outcome = runner.run(lab, home, bar)
    if outcome.ran == 0:
        console.print(f"finished before: {plural(outcome.already, 'trial')}; nothing to do")
    for number, reason in outcome.failures:
        print(f"trial {number} failed: {reason}", file=sys.stderr)
    again = f"{name} --budget {spec.budget}" if budget else name
    console.print(
        f"next: ablate results {again}, ablate report {again}, ablate ui", highlight=False
    )
    if outcome.failures:
        raise typer.Exit(1)


@app.command(epilog="Example: ablate results fashion-adls fashion-asams")
def results(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="A study, or several to rank together.")],
    budget: BudgetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
) -> None:
    """Print a study's trials: a table, best first, or JSON, by number.

    Several studies are ranked together if they were measured alike, and refused if not.
    """
    from ablate.console import print_json, print_results, trial_rows
    from ablate.record import joined

    records = [_record(context.obj, name, budget) for name in names]
    record = joined(records) if len(records) > 1 else records[0]
    if as_json:
        print_json(trial_rows(record))
    else:
        print_results(record)


@app.command("list", epilog="Example: ablate list")
def list_studies(context: typer.Context) -> None:
    """List the studies with their question and state."""
    from ablate.console import print_table

    home: Home = context.obj
    rows = [(name, *_question_and_state(home, name)) for name in home.toml_files()]
    print_table(["study", "question", "state"], rows)


@app.command(epilog="Example: ablate show digits-adls --budget quick")
def show(context: typer.Context, name: Name, budget: BudgetOption = None) -> None:
    """Print a study as it would be run: every default filled in, as JSON."""
    from ablate.device import resolve

    print(_read(context.obj, name, budget, resolve("auto")).model_dump_json(indent=1))


@app.command(epilog="Example: ablate report digits-adls")
def report(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Studies; all that were run when left out.")
    ] = None,
    budget: BudgetOption = None,
) -> None:
    """Write reports/<study>/: index.html, report.md, tables and figures, from MLflow alone."""
    from ablate.report import render
    from ablate.tracking import Reader

    home: Home = context.obj
    reader = Reader(home)
    known = [name for name in reader.names() if reader.latest(name, budget) is not None]
    for name in names or known:
        record = _record(home, name, budget)
        print(render.write(record, reader.fetch, home.reports / record.name))


@app.command(epilog="Example: ablate ui --port 5000")
def ui(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = 5000,
) -> None:
    """Open the MLflow UI over this root's studies (Ctrl-C ends it)."""
    from ablate.ui import serve

    serve(context.obj, port)


def _read(
    home: Home, name: str, budget: str | None, device: str, trials: int | None = None
) -> Study:
    from ablate import study_file

    default = "quick" if device == "cpu" else "full"
    return study_file.read(home.find_toml(name), budget or default, trials)


def _record(home: Home, name: str, budget: str | None) -> StudyRecord:
    from ablate.tracking import Reader

    name = Path(name).stem if name.endswith(".toml") else name
    record = Reader(home).latest(name, budget)
    if record is None:
        which = f" with budget {budget}" if budget else ""
        raise UserError(f"study {name!r} has not been run{which} under {home.root}")
    return record


def _question_and_state(home: Home, name: str) -> tuple[str, str]:
    from ablate import study_file

    try:
        question = study_file.question(home.find_toml(name))
    except UserError as error:  # one broken file must not hide the others
        return str(error), "broken"
    if not home.has_record():
        return question, "not run"
    from ablate.tracking import Reader

    record = Reader(home).latest(name)
    if record is None:
        return question, "not run"
    done = sum(trial.state not in ("running", "interrupted") for trial in record.trials)
    return question, f"{record.budget}: {done} of {record.planned} trials"
