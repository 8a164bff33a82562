"""Commands that run studies and tell what came of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.app import DeviceOption, app
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace

if TYPE_CHECKING:
    from ablate.experiment.prepare import Setup
    from ablate.experiment.worker import Outcome
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


@app.command(epilog="Example: ablate study digits-adls --budget smoke")
def study(
    context: typer.Context,
    name: Name,
    budget: BudgetOption = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Total number of trials, in place of the budget's.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Begin no trial after so many minutes.")
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option(min=1, help="Begin no trial after so many network evaluations of an image."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what it will cost on this device; run nothing.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes on this machine that share the study.")
    ] = 1,
    storage: StorageOption = "",
    tracking_uri: TrackingOption = "",
    device: DeviceOption = "auto",
    worker: Annotated[bool, typer.Option("--worker", hidden=True)] = False,
) -> None:
    """Run a study, or continue it to its total number of trials.

    Any number of machines join in by running the same command with the same --storage and
    --tracking-uri.
    """
    from ablate.cli.console import console, print_plan, print_study
    from ablate.core.device import resolve
    from ablate.experiment.prepare import prepare

    workspace = _shared(context.obj, storage, tracking_uri)
    where = resolve(device)
    spec = _read(workspace, name, budget, where, trials)
    limits = {"minutes": minutes, "evaluations": evaluations}
    spec = spec.model_copy(update={k: v for k, v in limits.items() if v is not None})
    try:
        setup = prepare(spec, workspace, where)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    spec = setup.study
    print_study(spec, "" if budget else f", the default on {where}")
    if setup.left_out:
        console.print("forward-data is left out: its images are not here (see ablate data)")
    if plan:
        from ablate.experiment.cost import make_plan, probe

        print_plan(make_plan(setup, probe(setup)), spec, where)
    elif worker:
        _work(setup, workspace)
    elif workers == 1:
        _tell(workspace, spec, _watch_one(setup, workspace))
    else:
        again = [name, "--budget", spec.budget, "--trials", str(spec.trials)]
        again += [f"--{k}={v}" for k, v in limits.items() if v is not None]
        _tell(workspace, spec, _watch_many(setup, workspace, again, workers, device))


def _work(setup: Setup, workspace: Workspace) -> None:
    from ablate.cli.console import Silent
    from ablate.experiment import local_pool as workers
    from ablate.experiment import worker as runner

    workers.obey()
    if runner.run(setup, workspace, Silent()).failures:
        raise typer.Exit(workers.TRIALS_FAILED)


def _watch_one(setup: Setup, workspace: Workspace) -> Outcome:
    from ablate.cli.console import StudyBar
    from ablate.experiment import worker as runner

    with StudyBar(setup.study.name, setup.study.objectives) as bar:
        return runner.run(setup, workspace, bar)


def _watch_many(
    setup: Setup, workspace: Workspace, again: list[str], count: int, device: str
) -> Outcome:
    from ablate.cli.console import StudyBar
    from ablate.core.device import spread
    from ablate.core.errors import PassingError
    from ablate.core.signals import shielded
    from ablate.experiment import local_pool as workers
    from ablate.experiment.worker import Outcome, close_left, in_one_line, open_search
    from ablate.search import Ledger, best, finished

    with in_one_line(setup, workspace):
        open_search(workspace)
        ledger = Ledger(workspace.search_url, setup.key, setup.study)
        before = ledger.entries()
        already = finished(before)
        try:
            with StudyBar(setup.study.name, setup.study.objectives) as bar:
                bar.began(already, setup.study.trials, best(setup.study, before))

                def look() -> None:
                    entries = ledger.entries()
                    bar.stands(finished(entries), best(setup.study, entries))

                killed = workers.run(workspace, again, spread(device, count), look)
        except KeyboardInterrupt:
            with shielded():
                close_left(setup, workspace, "interrupted", "Ctrl-C")
            raise
        done = finished(ledger.entries())
        if done >= setup.study.trials:
            for each in killed:
                typer.echo(each, err=True)
            return Outcome(already, done - already, [])
        left = f"{done} of {setup.study.trials} trials are finished"
        if killed:
            with shielded():
                close_left(setup, workspace, "failed", "; ".join(killed))
            raise PassingError(f"{'; '.join(killed)}: {left}; the same command continues")
        return Outcome(already, done - already, [], left)


def _tell(workspace: Workspace, spec: Study, outcome: Outcome) -> None:
    """What came of it; a table of failures, and exit code 1, if there are any."""
    from ablate.cli.console import console, plural, print_table

    if outcome.ran == 0 and not outcome.stopped:
        console.print(f"finished before: {plural(outcome.already, 'trial')}; nothing to do")
    if outcome.stopped:
        console.print(f"stopped: {outcome.stopped}; the same command continues", highlight=False)
    record = _record(workspace, spec.name, spec.budget)
    failed = [(str(t.number), t.reason or "") for t in record.trials if t.state == "failed"]
    again = f"{spec.name} --budget {spec.budget}"
    console.print(
        f"next: ablate results {again}, ablate report {again}, ablate ui", highlight=False
    )
    if failed:
        print_table(["trial that failed", "reason"], failed)
        raise typer.Exit(1)


def _tracked(workspace: Workspace, tracking: str) -> Workspace:
    """With the record that machines share, if there is one, checked."""
    if not tracking:
        return workspace
    from ablate.core.errors import keep_secret
    from ablate.tracking import reach

    keep_secret(tracking)
    reach(tracking)
    return workspace._replace(tracking=tracking)


def _shared(workspace: Workspace, storage: str, tracking: str) -> Workspace:
    """With a database and a record that other machines share, checked."""
    if bool(storage) != bool(tracking):
        missing = "--tracking-uri" if storage else "--storage"
        raise UserError(f"{missing} is missing: machines share both the search and the record")
    if not storage:
        return workspace
    from ablate.core.errors import keep_secret
    from ablate.search import database

    keep_secret(storage)
    database.check(storage)
    return _tracked(workspace, tracking)._replace(storage=storage)


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

    workspace = _tracked(context.obj, tracking_uri)
    records = [_record(workspace, name, budget) for name in names]
    record = joined(records) if len(records) > 1 else records[0]
    if as_json:
        print_json(trial_rows(record))
    else:
        print_results(record)


@app.command("list", epilog="Example: ablate list")
def list_studies(context: typer.Context, tracking_uri: TrackingOption = "") -> None:
    """List the studies, family by family, with their question and state."""
    from ablate.cli.console import print_groups
    from ablate.study import find as studies

    workspace = _tracked(context.obj, tracking_uri)
    groups: dict[str, list[tuple[str, ...]]] = {}
    for name, family in studies.names(workspace).items():
        groups.setdefault(family, []).append((name, *_question_and_state(workspace, name)))
    print_groups(["study", "question", "state"], list(groups.values()))


@app.command(epilog="Example: ablate show digits-adls --budget quick")
def show(context: typer.Context, name: Name, budget: BudgetOption = None) -> None:
    """Print a study as it would be run: every default filled in, as JSON."""
    from ablate.core.device import resolve

    print(_read(context.obj, name, budget, resolve("auto")).model_dump_json(indent=1))


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
    from ablate.tracking import Reader

    workspace = _tracked(context.obj, tracking_uri)
    reader = Reader(workspace)
    known = [name for name in reader.names() if reader.latest(name, budget) is not None]
    for name in names or known:
        record = _record(workspace, name, budget)
        print(render.write(record, reader.fetch, workspace.reports / record.name))


@app.command(epilog="Example: ablate ui --port 5000")
def ui(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = 5000,
) -> None:
    """Open the MLflow UI over this root's studies (Ctrl-C ends it)."""
    from ablate.cli.ui import serve

    serve(context.obj, port)


def _read(
    workspace: Workspace, name: str, budget: str | None, device: str, trials: int | None = None
) -> Study:
    from ablate.study import find as studies

    default = "quick" if device == "cpu" else "full"
    return studies.read(studies.find(workspace, name), budget or default, trials)


def _record(workspace: Workspace, name: str, budget: str | None) -> StudyResults:
    from ablate.tracking import Reader

    name = Path(name).stem if name.endswith(".toml") else name
    record = Reader(workspace).latest(name, budget)
    if record is None:
        which = f" with budget {budget}" if budget else ""
        raise UserError(f"study {name!r} has not been run{which} under {workspace.root}")
    return record


def _question_and_state(workspace: Workspace, name: str) -> tuple[str, str]:
    from ablate.study import find as studies

    try:
        question = studies.find(workspace, name).question
    except UserError as error:  # one broken file must not hide the others
        return str(error), "broken"
    if not workspace.has_record():
        return question, "not run"
    from ablate.tracking import Reader

    record = Reader(workspace).latest(name)
    if record is None:
        return question, "not run"
    done = sum(trial.state not in ("running", "interrupted") for trial in record.trials)
    return question, f"{record.budget}: {done} of {record.planned} trials"
