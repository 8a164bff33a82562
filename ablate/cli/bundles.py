"""`ablate bundle`: list, show, import and sample bundles."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ablate.cli.app import DeviceOption, app, safetensors
from ablate.cli.options import (
    CpusOption,
    GpusOption,
    JsonOption,
    ProcessesOption,
    RayOption,
    work_place,
)
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace

if TYPE_CHECKING:
    from ablate.experiment.executors.place import Place
    from ablate.experiment.showcase import Showcase
    from ablate.generate.settings import Settings

bundle_app = typer.Typer(
    help="Bundles: trained models with everything a study needs.",
    epilog="Example: ablate bundle show digits",
    no_args_is_help=True,
)
app.add_typer(bundle_app, name="bundle")
BundleName = Annotated[str, typer.Argument(help="A bundle's name or a .safetensors file.")]


@bundle_app.command("list", epilog="Example: ablate bundle list")
def bundle_list(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the bundles: those of the package and those trained under this root."""
    from ablate.cli.console import print_json, print_table
    from ablate.models.bundle import available_bundles

    found = [_listed(name, path) for name, path in available_bundles(context.obj).items()]
    if as_json:
        print_json(found)
        return
    rows = [
        (each["name"], "", "", f"broken: {each['error']}")
        if "error" in each
        else (
            *(each["name"], "×".join(map(str, each["shape"]))),
            *(f"{each['s_min']} to {each['s_max']}", each["note"]),
        )
        for each in found
    ]
    print_table(["bundle", "images", "noise levels", "note"], rows)


def _listed(name: str, path: Path) -> dict[str, Any]:
    """What `bundle list` says of one; what is wrong with its file must not hide the others."""
    from ablate.models.bundle import read_card

    try:
        card = read_card(path)
    except UserError as error:
        return {"name": name, "file": str(path), "error": str(error)}
    fields = card.model_dump(mode="json", include={"dataset", "shape", "s_min", "s_max", "note"})
    return {"name": name, "file": str(path), **fields}


@bundle_app.command("show", epilog="Example: ablate bundle show digits")
def bundle_show(
    context: typer.Context,
    name: BundleName,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, which is the default.")] = False,
) -> None:
    """Print a bundle's card as JSON: its dataset, recipe, noise levels and provenance."""
    from ablate.cli.console import print_json
    from ablate.models.bundle import find, read_card

    workspace: Workspace = context.obj
    print_json(read_card(find(name, workspace)).model_dump(mode="json"))


@bundle_app.command(
    "import",
    epilog="Example: ablate bundle import theirs.pt --recipe fashion --out mine.safetensors",
)
def bundle_import(
    context: typer.Context,
    weights: Annotated[Path, typer.Argument(help="A .safetensors file or a checkpoint.")],
    recipe: Annotated[
        str, typer.Option(help="Training file that names its network, objective and dataset.")
    ],
    out: Annotated[Path, typer.Option(help="Bundle to write.")],
    sigma: Annotated[
        float | None, typer.Option(min=0, help="For a network conditioned on k: s = sigma √(k/N).")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--N", min=3, help="For a network conditioned on k: its N.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Part of a file with several state dicts, such as model. Default: an average, ema."
        ),
    ] = None,
) -> None:
    """Make a bundle of a network that was trained elsewhere, by default conditioned on log s.

    The names of weights may be ours or those of NCSN, NCSNv2 and score_sde.
    """
    from ablate.data.datasets import load
    from ablate.metrics.extractors.extractor import find_extractor
    from ablate.models.bundle import Steps
    from ablate.training.import_weights import import_bundle
    from ablate.training.pack import read_recipe

    workspace: Workspace = context.obj
    if (sigma is None) != (n is None):
        raise UserError("--sigma and --N say together what k meant: give both or neither")
    steps = None if sigma is None or n is None else Steps(sigma=sigma, N=n)
    target = safetensors(out)
    training = read_recipe(workspace.find_toml(recipe, "train"))
    load(training.dataset)  # an error if it is missing, before anything else
    extractor = find_extractor(training.dataset, workspace.bundles)
    errors = import_bundle(weights, target.stem, training, extractor, target, steps, key)
    for s, error in errors.items():
        print(f"held-out error at s = {s:<5g} {error:.3e}")
    print(target)


@bundle_app.command("sample", epilog="Example: ablate bundle sample digits --samples 512")
def bundle_sample(
    context: typer.Context,
    name: BundleName,
    samples: Annotated[int, typer.Option(min=2)] = 256,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="Noise level that sampling starts from. Default: 0.8, or the bundle's highest."
        ),
    ] = None,
    levels: Annotated[int, typer.Option(min=3)] = 10,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    as_json: JsonOption = False,
    workers: ProcessesOption = 1,
    ray: RayOption = "",
    cpus_per_cell: CpusOption = None,
    gpus_per_cell: GpusOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Draw images with a few-step solver: a picture, FID and KID beside the baselines.

    Many samples are drawn in shards, by --workers or on Ray; continues after a kill.
    """
    from ablate.cli.console import print_json, print_showcase, say
    from ablate.generate.presets import few_step_settings
    from ablate.models.bundle import find, read_card

    workspace: Workspace = context.obj
    card = read_card(find(name, workspace))
    settings = few_step_settings(levels, (card.s_min, card.s_max), sigma)
    picture = workspace.reports / "bundles" / f"{Path(name).stem}.png"
    bars = redirect_stdout(sys.stderr if as_json else sys.stdout)  # they are not JSON
    with work_place(workers, ray, cpus_per_cell, gpus_per_cell, device) as place, bars:
        shown = _show(workspace, name, settings, samples, seed, picture, place)
    if as_json:
        print_json({**shown._asdict(), "picture": str(picture)})
        return
    print_showcase(shown.metrics, shown.baselines, shown.protocol)
    say(f"told of each sample: {settings.told(card.recipe.net.classes)}")
    print(picture)


def _show(
    workspace: Workspace,
    name: str,
    settings: Settings,
    samples: int,
    seed: int,
    picture: Path,
    place: Place,
) -> Showcase:
    """Draw samples: a few at once, many in shards."""
    from ablate.cli.progress import counting_bar, image_bar
    from ablate.experiment.shards import SHARD
    from ablate.experiment.showcase import showcase, showcase_in_shards
    from ablate.generate.draw import BATCH

    what, title = (workspace, name, settings, samples, seed, picture), f"sample {name}"
    if samples > SHARD or not place.here:
        with image_bar(title, samples) as advance:
            return showcase_in_shards(*what, place, advance)
    calls = settings.nfe * -(-samples // BATCH)
    with counting_bar(title, calls, "calls") as tick:
        step = iter(range(1, calls + 1))
        return showcase(*what, place.device, lambda: tick(next(step)))
