"""The command line: thin. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from ablate import __version__
from ablate.errors import UserError
from ablate.home import Home

if TYPE_CHECKING:
    from ablate.record import StudyRecord
    from ablate.spec import Study
    from ablate.train import StepNews

app = typer.Typer(
    name="ablate",
    help="Ablation studies for diffusion models with multiplicative noise.",
    epilog="Example: ablate study digits-adls && ablate report digits-adls",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="A study's name (see `ablate list`) or a .toml file.")]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", help="smoke, quick or full. Default: quick on a CPU, full on a GPU."),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    root: Annotated[
        Path,
        typer.Option(envvar="ABLATE_ROOT", help="Where studies/, mlruns/ and reports/ are."),
    ] = Path(),
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    context.obj = Home(root.resolve())
    if version:
        print(f"ablate {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


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


@app.command(epilog="Example: ablate results digits-adls --json")
def results(
    context: typer.Context,
    name: Name,
    budget: BudgetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
) -> None:
    """Print a study's trials: a table, best first, or JSON, by number."""
    from ablate.console import print_json, print_results, trial_rows

    record = _record(context.obj, name, budget)
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


@app.command(epilog="Example: ablate train digits --minutes 30")
def train(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A file of studies/train by name, or a path.")],
    out: Annotated[
        Path | None, typer.Option(help="Bundle to write. Default: mlruns/bundles/NAME.safetensors.")
    ] = None,
    device: DeviceOption = "auto",
    minutes: Annotated[
        float | None,
        typer.Option(min=0.01, help="Time to train for, in place of the recipe's steps."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="A bundle whose weights to start with.")
    ] = None,
    ema_length: Annotated[
        float | None,
        typer.Option(help="Length of the averaged weights, as a share of the run (sigma_rel)."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Anew, if it is finished.")] = False,
) -> None:
    """Train a score model and pack it into a bundle; continues after an interruption.

    Several GPUs or machines: torchrun --nproc-per-node 4 -m ablate train NAME.
    """
    from ablate import parallel
    from ablate.build import alone, is_done, make_bundle, make_options, read_recipe
    from ablate.console import counting_bar
    from ablate.device import resolve
    from ablate.training_log import logged

    home: Home = context.obj
    path = home.find_toml(name, "train")
    recipe, name = read_recipe(path), path.stem
    target = _target(out, home.mlruns / "bundles" / f"{name}.safetensors")
    checkpoint = home.mlruns / "training" / f"{name}.pt"
    options = make_options(recipe, minutes, start, ema_length, home.root)
    with parallel.joined(resolve(device)) as where, alone(checkpoint, name) as first:
        if parallel.agreed(first and is_done(target, checkpoint, recipe, options, again)):
            if first:
                print(f"finished before: {target}; --again trains it anew")
            return
        with (
            counting_bar(f"train {name}", recipe.steps, "steps", first) as tick,
            logged(home, name, recipe, options, where) as log,
        ):

            def watch(news: StepNews) -> None:
                tick(news.step, news.loss, news.steps, f"{news.images_per_second:.0f} images/s")
                log(news)

            watcher = watch if first else None
            files = (checkpoint, target, where)
            trained = make_bundle(name, recipe, *files, options=options, watch=watcher)
        if first:
            if not recipe.snapshots:
                checkpoint.unlink(missing_ok=True)
            for s, error in trained.heldout_error.items():
                print(f"held-out error at s = {s:<5g} {error:.3e}")
            print(target)


@app.command("train-features", epilog="Example: ablate train-features digits")
def train_features(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="A dataset's name.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: mlruns/bundles/DATASET-features.safetensors."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Default: by dataset.")] = None,
) -> None:
    """Train the small classifier whose features FID and KID are measured in."""
    from ablate.build import classifier_recipe, make_extractor
    from ablate.console import counting_bar
    from ablate.data import load

    home: Home = context.obj
    load(dataset)  # a missing one is told before anything else
    epochs = classifier_recipe(dataset, epochs).epochs
    target = _target(out, home.mlruns / "bundles" / f"{dataset}-features.safetensors")
    with counting_bar(f"train-features {dataset}", epochs, "epochs") as tick:
        accuracy = make_extractor(dataset, target, epochs, tick)
    print(f"held-out accuracy {accuracy:.2%}\n{target}")


data_app = typer.Typer(
    help="Datasets: where they are and how to get them.",
    epilog="Example: ablate data",
    invoke_without_command=True,
)
app.add_typer(data_app, name="data")


@data_app.callback()
def data(context: typer.Context) -> None:
    """List the datasets and their state. ABLATE_DATA says where they are (torchvision's layout)."""
    if context.invoked_subcommand is None:
        from ablate.console import print_table
        from ablate.data import LOADERS, data_folder, state

        print_table(["dataset", "state"], [(name, state(name)) for name in LOADERS])
        print(f"looked under {data_folder()} (set ABLATE_DATA to change it)")


@data_app.command("get", epilog="Example: ablate data get fashion")
def data_get(name: Annotated[str, typer.Argument(help="A dataset's name.")]) -> None:
    """Download a dataset through torchvision."""
    from ablate.data import download, state

    download(name)
    print(f"{name}: {state(name)}")


bundle_app = typer.Typer(
    help="Bundles: trained models with all that a study needs.",
    epilog="Example: ablate bundle show digits",
    no_args_is_help=True,
)
app.add_typer(bundle_app, name="bundle")
BundleName = Annotated[str, typer.Argument(help="A shipped bundle's name or a .safetensors file.")]


@bundle_app.command("list", epilog="Example: ablate bundle list")
def bundle_list() -> None:
    """List the bundles that ship."""
    from ablate.bundle import read_card, shipped
    from ablate.console import print_table

    cards = [read_card(path) for path in shipped().values()]
    rows = [(c.name, "×".join(map(str, c.shape)), f"{c.s_min} to {c.s_max}", c.note) for c in cards]
    print_table(["bundle", "images", "noise levels", "note"], rows)


@bundle_app.command("show", epilog="Example: ablate bundle show digits")
def bundle_show(context: typer.Context, name: BundleName) -> None:
    """Print what a bundle says of itself, as JSON."""
    from ablate.bundle import find, read_card

    home: Home = context.obj
    print(read_card(find(name, home.root)).model_dump_json(indent=1))


@bundle_app.command(
    "import",
    epilog="Example: ablate bundle import theirs.pt --recipe fashion --out mine.safetensors",
)
def bundle_import(
    context: typer.Context,
    weights: Annotated[Path, typer.Argument(help="A .safetensors file or a state dict.")],
    recipe: Annotated[
        str, typer.Option(help="Training file that names its network, objective and dataset.")
    ],
    out: Annotated[Path, typer.Option(help="Bundle to write.")],
    sigma: Annotated[
        float | None, typer.Option(min=0, help="If it is told k: s = sigma √(k/N).")
    ] = None,
    n: Annotated[int | None, typer.Option("--N", min=3, help="If it is told k: its N.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Which of several state dicts in the file.")
    ] = None,
) -> None:
    """Make a bundle of a network that was trained elsewhere. By default it is told log s."""
    from ablate.build import read_recipe
    from ablate.bundle import Steps
    from ablate.importing import import_bundle

    home: Home = context.obj
    if (sigma is None) != (n is None):
        raise UserError("--sigma and --N say together what k meant: give both or neither")
    steps = None if sigma is None or n is None else Steps(sigma=sigma, N=n)
    target = _target(out, out)
    known = read_recipe(home.find_toml(recipe, "train"))
    for s, error in import_bundle(weights, target.stem, known, target, steps, key).items():
        print(f"held-out error at s = {s:<5g} {error:.3e}")
    print(target)


@bundle_app.command("sample", epilog="Example: ablate bundle sample digits --samples 512")
def bundle_sample(
    context: typer.Context,
    name: BundleName,
    samples: Annotated[int, typer.Option(min=2)] = 256,
    sigma: Annotated[float, typer.Option(help="Noise level that sampling starts from.")] = 0.8,
    levels: Annotated[int, typer.Option(min=3)] = 10,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    device: DeviceOption = "auto",
) -> None:
    """Draw images with a few-step solver: a picture, FID and KID beside the yardsticks."""
    from ablate.console import counting_bar, print_portrait
    from ablate.device import resolve
    from ablate.portrait import few_step_settings, portrait
    from ablate.trial import BATCH

    home: Home = context.obj
    settings = few_step_settings(sigma, levels)
    picture = home.reports / "bundles" / f"{Path(name).stem}.png"
    calls = settings.nfe * -(-samples // BATCH)
    with counting_bar(f"sample {name}", calls, "calls") as tick:
        step = iter(range(1, calls + 1))
        where = resolve(device)
        found = portrait(
            home, name, settings, samples, seed, picture, where, lambda: tick(next(step))
        )
    print_portrait(found.metrics, found.yardsticks, found.protocol)
    print(picture)


def _target(out: Path | None, default: Path) -> Path:
    target = out or default
    if target.suffix != ".safetensors":
        raise UserError(f"--out {target}: must end in .safetensors")
    return target


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


INTERRUPTED = 130
"""What Typer returns after Ctrl-C: 128 + SIGINT."""


def _terminate(*_: object) -> NoReturn:
    """SIGTERM is handled as Ctrl-C is: what is open is closed."""
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            print("interrupted; the same command continues", file=sys.stderr)
    except UserError as error:
        code = _complain(str(error))
    except TyperException as error:
        code = _complain(f"{error.format_message()} (see ablate --help)")
    sys.exit(code or 0)


def _complain(text: str) -> int:
    print("error: " + " ".join(text.split()), file=sys.stderr)
    return 2
