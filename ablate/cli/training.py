"""Commands that train: score models and classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.app import DeviceOption, app, safetensors
from ablate.core.workspace import Workspace

if TYPE_CHECKING:
    from ablate.models.recipe import Recipe
    from ablate.training.clock import TrainingTime
    from ablate.training.loop import Observer, StepReport
    from ablate.training.options import Options


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
        typer.Option(
            help="Length of the average of the weights, as a share of the run (sigma_rel)."
        ),
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(
            min=100,
            help="Most images of each split whose features the bundle carries, for studies without"
            " the dataset. Default: thousands; a network that only guides needs few.",
        ),
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option("--compile", help="Compile the network on a CPU; needs a C++ compiler."),
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Train anew if it is finished.")] = False,
) -> None:
    """Train a score model and write it as a bundle; continues after an interruption.

    Several GPUs or machines: torchrun --nproc-per-node 4 -m ablate train NAME.
    """
    from ablate.training.compiling import can_compile
    from ablate.training.pack import make_options, read_recipe

    workspace: Workspace = context.obj
    path = workspace.find_toml(name, "train")
    recipe = read_recipe(path)
    target = safetensors(out or workspace.bundles / f"{path.stem}.safetensors")
    options = make_options(recipe, minutes, start, ema_length, workspace)
    options = options._replace(compile=compiled and can_compile(), features=features)
    _train(workspace, path.stem, recipe, options, target, device, again)


def _train(
    workspace: Workspace,
    name: str,
    recipe: Recipe,
    options: Options,
    target: Path,
    device: str,
    again: bool,
) -> None:
    """Train in this process, one of several or the only one; the first prints the results."""
    from ablate.core.device import resolve
    from ablate.data.datasets import load
    from ablate.metrics.extractors.extractor import find_extractor
    from ablate.training import distributed
    from ablate.training.clock import TrainingTime
    from ablate.training.pack import is_done, locked_training, make_bundle

    checkpoint = workspace.mlruns / "training" / f"{name}.pt"
    dataset = load(recipe.dataset)  # an error if it is missing, before anything else
    extractor = find_extractor(recipe.dataset, workspace.bundles)
    group = distributed.process_group(resolve(device))
    with group as where, locked_training(checkpoint, name) as first:
        if distributed.from_first(first and is_done(target, checkpoint, recipe, options, again)):
            if first:
                print(f"already finished: {target}; --again trains it anew")
            return
        took = TrainingTime(checkpoint.with_suffix(".seconds"))
        with _watched(workspace, name, recipe, options, where, first, took) as watch:
            trained = make_bundle(
                name,
                recipe,
                dataset,
                extractor,
                checkpoint,
                target,
                where,
                options=options,
                watch=watch,
                hours=lambda: took.hours,
            )
        if first:
            if not recipe.snapshots:
                checkpoint.unlink(missing_ok=True)
            took.remove()
            for s, error in trained.heldout_error.items():
                print(f"held-out error at s = {s:<5g} {error:.3e}")
            print(target)


@contextmanager
def _watched(
    workspace: Workspace,
    name: str,
    recipe: Recipe,
    options: Options,
    device: str,
    first: bool,
    took: TrainingTime,
) -> Iterator[Observer | None]:
    """An observer with a progress bar and a run in MLflow, which writes how long the training took;
    None in all processes but the first."""
    from ablate.cli.progress import counting_bar
    from ablate.training.mlflow_log import logged

    if not first:
        yield None
        return
    with (
        counting_bar(f"train {name}", recipe.steps, "steps") as tick,
        logged(workspace, name, recipe, options, device) as log,
    ):

        def watch(report: StepReport) -> None:
            speed = f"{report.images_per_second:.0f} images/s"
            tick(report.step, report.loss, report.steps, speed)
            log(report)
            took.after_step(report.step)

        try:
            yield watch
        finally:
            took.write()


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
    from ablate.cli.progress import counting_bar
    from ablate.data.datasets import load
    from ablate.training.extractors import classifier_recipe, make_extractor

    workspace: Workspace = context.obj
    load(dataset)  # an error if it is missing, before anything else
    epochs = classifier_recipe(dataset, epochs).epochs
    target = safetensors(out or workspace.bundles / f"{dataset}-features.safetensors")
    with counting_bar(f"train-features {dataset}", epochs, "epochs") as tick:
        accuracy = make_extractor(dataset, target, epochs, tick)
    print(f"held-out accuracy {accuracy:.2%}\n{target}")
