"""`ablate features`: features of a dataset's images, computed once and exchanged as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.app import app, safetensors
from ablate.cli.options import (
    CpusOption,
    ExtractorOption,
    GpusOption,
    ProcessesOption,
    RayOption,
    ResizeOption,
    work_place,
)
from ablate.core.errors import UserError

features_app = typer.Typer(
    help="Features of reference images: compute, export, import.",
    epilog="Example: ablate features compute cifar10/test",
    no_args_is_help=True,
)
app.add_typer(features_app, name="features")
SplitName = Annotated[str, typer.Argument(help="DATASET/test or DATASET/train.")]


@features_app.command("compute", epilog="Example: ablate features compute cifar10/test")
def compute(
    context: typer.Context,
    split: SplitName,
    extractor: ExtractorOption = "inception",
    resize: ResizeOption = "tf1",
    out: Annotated[
        Path | None, typer.Option(help="Write them to a .safetensors file, too.")
    ] = None,
    workers: ProcessesOption = 1,
    ray: RayOption = "",
    cpus_per_cell: CpusOption = None,
    gpus_per_cell: GpusOption = None,
) -> None:
    """Compute the features of a split into the cache (ABLATE_CACHE); continues after a kill."""
    from ablate.cli.progress import image_bar
    from ablate.core.device import resolve
    from ablate.data.tensor_cache import cache_folder
    from ablate.experiment.evaluate import features_of, find_features, image_set
    from ablate.experiment.split_features import SharedExtractor, fill_cache
    from ablate.metrics.feature_cache import address_of, export_features

    resolve("cpu")
    target = None if out is None else safetensors(out)
    network, images = find_features(extractor, resize, context.obj), image_set(split)
    if images.dataset is None:
        raise UserError(f"{split}: not a split of a dataset, as cifar10/test is")
    title, total = f"features of {images.name}", len(images.pixels)
    with work_place(workers, ray, cpus_per_cell, gpus_per_cell, "auto" if ray else "cpu") as place:
        if not place.here:
            what, shared = (images.dataset, images.split, network), SharedExtractor(network)
            with place.executor(shared) as executor, image_bar(title, total) as advance:
                fill_cache(*what, cache_folder(), executor, advance)
    with image_bar(title, total) as advance:
        found = features_of(images, network, advance)
    address = address_of(images.dataset, images.split, network)
    if target is not None:
        export_features(found, address, target)
    print(target or cache_folder() / address.key)


@features_app.command("import", epilog="Example: ablate features import cifar10-test.safetensors")
def import_(file: Annotated[Path, typer.Argument(help="What `compute --out` wrote.")]) -> None:
    """Import features that another machine computed into the cache."""
    from ablate.data.tensor_cache import cache_folder
    from ablate.metrics.feature_cache import import_features

    address = import_features(file, cache_folder())
    print(f"{address.images} images of {address.dataset}/{address.split}: {address.key}")


@features_app.command("codes", epilog="Example: ablate features codes cifar10")
def codes(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="A dataset's name.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: mlruns/bundles/DATASET-images.safetensors."),
    ] = None,
) -> None:
    """Pack all training images into a few bytes each, so that copies are found without them."""
    from ablate.core.device import resolve
    from ablate.data.datasets import load
    from ablate.metrics.extractors.extractor import find_extractor
    from ablate.metrics.image_codes import code_images, write_codes

    resolve("cpu")
    target = safetensors(out or context.obj.bundles / f"{dataset}-images.safetensors")
    images, extractor = load(dataset), find_extractor(dataset, context.obj.bundles)
    write_codes(target, code_images(images, extractor), images, extractor)
    print(target)
