"""`ablate study`: run a study, alone or with several workers on this machine."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.app import DeviceOption, app
from ablate.cli.options import (
    BudgetOption,
    CpusOption,
    GpusOption,
    JsonOption,
    Name,
    RayOption,
    StorageOption,
    TrackingOption,
    find_results,
    ray_cluster,
    read_study,
    shared,
)
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace

if TYPE_CHECKING:
    from ablate.experiment.executors.place import Place
    from ablate.experiment.prepare import Setup
    from ablate.experiment.worker import Outcome
    from ablate.study.definition import Study


TrialsOption = Annotated[
    int | None, typer.Option(min=1, help="Total number of trials, instead of the budget's.")
]
MinutesOption = Annotated[
    float | None, typer.Option(min=0, help="Start no trial after so many minutes.")
]
EvaluationsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Start no trial after so many network evaluations of an image."),
]
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Print what it will cost on this device; run nothing.")
]
WorkersOption = Annotated[
    int, typer.Option(min=1, help="Processes on this machine that draw the cells.")
]


@app.command(epilog="Example: ablate study digits-adls --budget smoke")
def study(
    context: typer.Context,
    name: Name,
    budget: BudgetOption = None,
    trials: TrialsOption = None,
    minutes: MinutesOption = None,
    evaluations: EvaluationsOption = None,
    plan: PlanOption = False,
    as_json: JsonOption = False,
    workers: WorkersOption = 1,
    ray: RayOption = "",
    cpus_per_cell: CpusOption = None,
    gpus_per_cell: GpusOption = None,
    storage: StorageOption = "",
    tracking_uri: TrackingOption = "",
    device: DeviceOption = "auto",
) -> None:
    """Run a study, or continue it to its total number of trials.

    With --ray, one command draws its cells on many machines. They also share a study by running
    the same command with the same --storage and --tracking-uri.
    """
    from ablate.core.device import resolve
    from ablate.experiment.executors.place import Place

    _require_that_fit(plan, as_json, ray, workers)
    workspace = shared(context.obj, storage, tracking_uri)
    limits = _given(minutes=minutes, evaluations=evaluations)
    with ray_cluster(ray, cpus_per_cell, gpus_per_cell, device) as cluster:
        here = resolve("cpu" if cluster else device)  # what is not a cell's work is done here
        where = cluster.device if cluster else here
        spec = read_study(workspace, name, budget, where, trials).model_copy(update=limits)
        if plan and _planned_without_bundle(spec, workspace, as_json):
            return
        with redirect_stdout(sys.stderr if as_json else sys.stdout):  # it is not JSON
            setup = _prepared(spec, name, workspace, here, by_default=budget is None, plan=plan)
        setup = setup._replace(device=where)
        if plan:
            _plan(setup, as_json)
        else:
            place = Place(where, workers, cluster)
            _summarise(workspace, setup.study, _watch(setup, workspace, place))


def _require_that_fit(plan: bool, as_json: bool, ray: str, workers: int) -> None:
    """Raise an error for flags that do not go together."""
    if as_json and not plan:
        raise UserError("--json: prints a plan; give --plan, too, or see ablate results --json")
    if ray and (plan or workers > 1):
        raise UserError(f"--ray: not with {'--plan' if plan else '--workers'}")


def _given(**limits: float | None) -> dict[str, float]:
    """The limits that are given, by their names in a study."""
    return {name: value for name, value in limits.items() if value is not None}


def _prepared(
    spec: Study, name: str, workspace: Workspace, device: str, by_default: bool, plan: bool
) -> Setup:
    """Everything that the study needs, checked; prints what is about to be run."""
    from ablate.cli.console import print_study, print_warning, say
    from ablate.cli.progress import image_bar
    from ablate.experiment.coarse_grids import coarse_grids
    from ablate.experiment.earlier import begun_with_another
    from ablate.experiment.prepare import prepare
    from ablate.experiment.worker import in_one_line

    try:
        setup = prepare(spec, workspace, device, image_bar, compute=not plan)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    print_study(setup.study, f", the default on {device}" if by_default else "")
    if setup.left_out:
        say(
            "Starts that need training images are left out: these are not on this machine (ablate"
            " data)"
        )
    if (warning := coarse_grids(setup.study)) is not None:
        print_warning(warning)
    if not plan:
        with in_one_line(setup, workspace):
            warning = begun_with_another(setup, workspace)
        if warning is not None:
            print_warning(warning)
    return setup


def _plan(setup: Setup, as_json: bool) -> None:
    from ablate.cli.plan_table import print_plan
    from ablate.experiment.cost import make_plan, probe

    print_plan(make_plan(setup, probe(setup)), setup.study, setup.device, as_json)


def _planned_without_bundle(spec: Study, workspace: Workspace, as_json: bool) -> bool:
    """Whether the bundle is not here; the plan is then printed as far as the study's file goes."""
    from ablate.cli.console import print_study
    from ablate.cli.plan_table import print_work
    from ablate.experiment.cost import count
    from ablate.models.bundle import find

    try:
        find(spec.bundle, workspace)
    except UserError as error:
        if not as_json:
            print_study(spec, "")
        print_work(count(spec), spec, str(error), as_json)
        return True
    return False


def _watch(setup: Setup, workspace: Workspace, place: Place) -> Outcome:
    """With this process, which proposes and records; cells are drawn where the flags say."""
    from ablate.cli.progress import StudyBar
    from ablate.experiment.portable import portable
    from ablate.experiment.worker import run

    with StudyBar(setup.study.name, setup.study.objectives) as bar:
        if place.here:
            return run(setup, workspace, bar)
        with place.executor(portable(setup)) as executor:
            return run(setup, workspace, bar, executor)


def _summarise(workspace: Workspace, spec: Study, outcome: Outcome) -> None:
    """Print how the study ended, its answer and the next command; with failed trials, a table of
    them and exit code 1."""
    from ablate.cli.console import plural, print_table, say
    from ablate.cli.results_table import print_answer, print_next

    if outcome.ran == 0 and not outcome.stopped:
        say(f"finished before: {plural(outcome.already, 'trial')}; nothing to do")
    if outcome.stopped:
        say(f"stopped: {outcome.stopped}; the same command continues")
    record = find_results(workspace, spec.name, spec.budget)
    ran = [*record.trials, *record.confirmations]
    failed = [(str(t.number), t.reason or "") for t in ran if t.state == "failed"]
    if failed:
        print_table(["trial that failed", "reason"], failed)
    print_answer(record)
    print_next(workspace, record)
    if failed:
        raise typer.Exit(1)
