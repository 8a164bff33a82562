"""`ablate evaluate`: any set of images against any other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.app import DeviceOption, app
from ablate.cli.options import (
    CpusOption,
    ExtractorOption,
    GpusOption,
    ProcessesOption,
    RayOption,
    ResizeOption,
    work_place,
)
from ablate.cli.samples_to_measure import Wanted, Work, work_of
from ablate.core.errors import UserError, first_line
from ablate.core.workspace import Workspace
from ablate.metrics.registry import METRICS, measured_in_studies, together

if TYPE_CHECKING:
    from ablate.experiment.evaluation import Evaluation
    from ablate.metrics.extractors.extractor import Extractor


MEASURED = [name for name, metric in METRICS.items() if metric.measure is not None]


SourceArgument = Annotated[
    str,
    typer.Argument(
        help="A folder of images, a .npy, .npz, .pt or .safetensors file of images, or a bundle's"
        " name."
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        help="DATASET/test, DATASET/train, a folder or a file. Default for a bundle: its dataset's"
        " test images."
    ),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        help=f"{', '.join(MEASURED)}; may be repeated. Metrics that are measured in one call come"
        " together. Default: those that every study has, all but fid_infinity."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="KNOB=VALUE of the sampler, for a bundle; may be repeated."),
]
VersusOption = Annotated[
    list[str] | None,
    typer.Option(
        help="KNOB=VALUE of a second configuration, drawn from the same noise and compared sample"
        " by sample; may be repeated."
    ),
]
CountOption = Annotated[
    int | None,
    typer.Option(min=1, help="Number of images to draw, or to take from the files."),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of samples drawn from a bundle.")]
NeighboursOption = Annotated[
    bool, typer.Option("--neighbours", help="Also search for copies of training images.")
]


@app.command(
    epilog="Example: ablate evaluate samples/ --against cifar10/test,"
    " or: ablate evaluate fashion --samples 5000 --set sigma=3"
)
def evaluate(
    context: typer.Context,
    source: SourceArgument,
    against: AgainstOption = None,
    extractor: ExtractorOption = "inception",
    resize: ResizeOption = "tf1",
    metric: MetricOption = None,
    samples: CountOption = None,
    seed: SeedOption = 0,
    knobs: SetOption = None,
    versus: VersusOption = None,
    neighbours: NeighboursOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    log: Annotated[bool, typer.Option(help="Record the result in MLflow.")] = True,
    workers: ProcessesOption = 1,
    ray: RayOption = "",
    cpus_per_cell: CpusOption = None,
    gpus_per_cell: GpusOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Measure images: FID, KID, precision, recall, density, coverage, each with its interval.

    A bundle's samples are drawn in shards, by --workers or on Ray; continues after a kill.
    """
    from ablate.experiment.evaluate import find_features

    workspace, which = context.obj, together(metric or measured_in_studies())
    network = find_features(extractor, resize, workspace)
    wanted = Wanted(source, against, samples, seed, knobs or [], versus or [])
    with work_place(workers, ray, cpus_per_cell, gpus_per_cell, device) as place:
        work = work_of(workspace, wanted, network, place)
        with redirect_stdout(sys.stderr if as_json else sys.stdout):  # bars are not JSON
            found = _measure(source, work, network, which, neighbours, workspace)
    _print(found, as_json)
    if log:
        _log(found, workspace, place.device)
    for files in work.files:
        files.remove()


def _measure(
    source: str,
    work: Work,
    network: Extractor,
    which: Sequence[str],
    neighbours: bool,
    workspace: Workspace,
) -> list[Evaluation]:
    """Draw or read the images and measure them, after everything is checked."""
    from ablate.cli.progress import image_bar
    from ablate.experiment import evaluate as evaluation

    target, count = work.against, work.number
    evaluation.check(source, work.shape, count, target, network, which, neighbours)
    sets = [draw() for draw in work.sets]
    dataset = target.dataset if neighbours else None
    near = None if dataset is None else evaluation.near_training_images(dataset, workspace)
    total = len(target.pixels) + count * len(sets)
    with image_bar(f"features by {network.name}", total) as bar:
        reference = evaluation.reference_of(target, network, count, bar)
        return [
            evaluation.evaluate(images, reference, network, which, chosen, near, bar)
            for images, chosen in zip(sets, work.knobs, strict=True)
        ]


def _print(found: list[Evaluation], as_json: bool) -> None:
    from ablate.cli.console import print_difference, print_evaluation, print_json
    from ablate.experiment.evaluate import comparison, differences

    if as_json:
        print_json(found[0].as_json() if len(found) == 1 else comparison(*found))
        return
    for each in found:
        print_evaluation(each)
    if len(found) == 2:
        print_difference(differences(*found))


def _log(found: list[Evaluation], workspace: Workspace, device: str) -> None:
    from ablate.experiment.evaluate import record

    for each in found:
        try:
            record(each, workspace, device)
        except Exception as error:  # any error of a database or a disk
            reason = f"{first_line(error)}; --no-log skips the recording"
            raise UserError(f"measured, but not recorded in MLflow: {reason}") from None
