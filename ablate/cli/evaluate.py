"""`ablate evaluate`: any set of images against any other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ablate.cli.app import DeviceOption, app
from ablate.errors import UserError
from ablate.home import Home

if TYPE_CHECKING:
    from ablate.evaluation import ImageSet

METRICS = ("fid", "fid_infinity", "kid", "coverage")
DEFAULT = ("fid", "kid", "coverage")


@app.command(
    epilog="Example: ablate evaluate samples/ --against cifar10/test,"
    " or: ablate evaluate fashion --samples 5000 --set sigma=3"
)
def evaluate(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            help="A folder of images, a .npy, .npz, .pt or .safetensors file of"
            " images, or a bundle's name."
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            help="DATASET/test, DATASET/train, a folder or a file. Default for a bundle:"
            " its dataset's test images."
        ),
    ] = None,
    extractor: Annotated[
        str, typer.Option(help="inception, or a dataset's small classifier by its name.")
    ] = "inception",
    resize: Annotated[
        str, typer.Option(help="For inception: tf1 (as published FIDs), antialias or clean.")
    ] = "tf1",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="fid, fid_infinity, kid or coverage (with precision, recall, density);"
            " may be repeated. Default: all but fid_infinity."
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many: the first of the files, or to draw.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of samples drawn from a bundle.")] = 0,
    knobs: Annotated[
        list[str] | None,
        typer.Option("--set", help="KNOB=VALUE of the sampler, for a bundle; may be repeated."),
    ] = None,
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="Look for copies of training images, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object.")] = False,
    log: Annotated[bool, typer.Option(help="Record it in MLflow.")] = True,
    device: DeviceOption = "auto",
) -> None:
    """Measure images: FID, KID, precision, recall, density, coverage, each with its interval."""
    from ablate import evaluation
    from ablate.bundle import known
    from ablate.console import image_bar, print_evaluation, print_json
    from ablate.device import resolve

    home, where, which = context.obj, resolve(device), tuple(metric or DEFAULT)
    if unknown := [name for name in which if name not in METRICS]:
        raise UserError(f"--metric {unknown[0]}: not one of {', '.join(METRICS)}")
    network = evaluation.find_features(extractor, resize, home)
    with redirect_stdout(sys.stderr if as_json else sys.stdout):  # bars are not JSON
        if source in known(home):
            mine, target, chosen = _drawn(
                home, source, against, which, network.net.width, samples, seed, knobs, where
            )
        else:
            mine, target, chosen = _read(source, against, samples, knobs)
        evaluation.check(mine, target, network, which)
        near = evaluation.near_training_images(target, home) if neighbours else None
        with image_bar(f"features by {network.name}", len(mine.pixels) + len(target.pixels)) as bar:
            found = evaluation.evaluate(mine, target, network, which, chosen, near, bar)
        if log:
            evaluation.record(found, home, where)
    if as_json:
        print_json(found.as_json())
    else:
        print_evaluation(found)


Work = tuple["ImageSet", "ImageSet", dict[str, Any]]
"""Samples, what they are measured against, and the knobs that drew them."""


def _read(source: str, against: str | None, count: int | None, knobs: list[str] | None) -> Work:
    from ablate.evaluation import image_set

    if knobs:
        raise UserError(f"--set {knobs[0]}: {source} is not a bundle, there is nothing to set")
    if against is None:
        raise UserError("--against: say what to measure against, for example cifar10/test")
    mine, target = image_set(source), image_set(against)
    if count is not None and count > len(mine.pixels):
        raise UserError(f"--samples {count}: {mine.name} has {len(mine.pixels)} images")
    if count is not None and count < len(mine.pixels):
        mine = mine._replace(pixels=mine.pixels[:count], dataset=None)
    return mine, target, {}


def _drawn(
    home: Home,
    name: str,
    against: str | None,
    which: Sequence[str],
    width: int,
    count: int | None,
    seed: int,
    knobs: list[str] | None,
    device: str,
) -> Work:
    from ablate import evaluation
    from ablate.bundle import find, read_card
    from ablate.console import counting_bar
    from ablate.metrics.reference import check_counts
    from ablate.trial import BATCH

    card, count = read_card(find(name, home)), count or 1000
    settings = evaluation.settings_of(card, knobs or [])
    target = evaluation.image_set(against or f"{card.dataset}/test")
    check_counts(which, count, len(target.pixels), width)
    calls = settings.nfe * -(-count // BATCH)
    with counting_bar(f"sample {name}", calls, "calls") as tick:
        step = iter(range(1, calls + 1))
        mine = evaluation.drawn(name, settings, count, seed, home, device, lambda: tick(next(step)))
    return mine, target, {**settings.knobs(), "seed": seed}
