"""Evaluating any set of images against any other: distances with intervals, copies, protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data import datasets
from ablate.data.registry import DATASETS
from ablate.data.tensor_cache import cache_folder
from ablate.experiment.evaluation import Evaluation, comparison, differences, record
from ablate.experiment.image_sets import ImageSet, drawn, drawn_in_shards, image_set, settings_of
from ablate.metrics.copy_search import Neighbourhood
from ablate.metrics.extractors.extractor import Extractor, extract, find_extractor
from ablate.metrics.extractors.inception import inception
from ablate.metrics.extractors.resize import RESIZES
from ablate.metrics.feature_cache import address_of, cached_features
from ablate.metrics.reference import Reference, make_reference, measure
from ablate.metrics.registry import check_counts
from ablate.nets.classifier import Classifier

__all__ = [
    "Evaluation",
    "ImageSet",
    "check",
    "comparison",
    "differences",
    "drawn",
    "drawn_in_shards",
    "evaluate",
    "features_of",
    "find_features",
    "image_set",
    "near_training_images",
    "record",
    "reference_of",
    "settings_of",
]

Progress = Callable[[int], None]


def find_features(name: str, resize: str, workspace: Workspace) -> Extractor:
    """The extractor `inception`, or a dataset's small classifier by the dataset's name."""
    if resize not in RESIZES:
        raise UserError(f"--resize {resize}: not one of {', '.join(RESIZES)}")
    if name == "inception":
        return inception(resize)
    if name not in DATASETS:
        known = ", ".join(["inception", *DATASETS])
        raise UserError(f"--extractor {name}: not one of {known}")
    return find_extractor(name, workspace.bundles)


def check(
    name: str,
    shape: tuple[int, ...],
    count: int,
    against: ImageSet,
    extractor: Extractor,
    which: Sequence[str],
    neighbours: bool,
) -> None:
    """Raise an error for `count` samples of `shape` that cannot be evaluated, before any
    expensive step."""
    theirs = tuple(against.pixels.shape[1:])
    check_counts(which, count, len(against.pixels), extractor.net.width)
    if isinstance(extractor.net, Classifier):
        net = extractor.card["net"]
        patch = net.get("patch", 1)
        fits = shape[0] == net["channels"] and not any(side % patch for side in shape[1:])
        if shape != theirs or not fits:
            raise UserError(
                f"{name}: images of {_times(shape)} against {_times(theirs)} do not fit"
                f" {extractor.name}, which resizes nothing; --extractor inception takes any size"
            )
    if neighbours and against.dataset is None:
        raise UserError(f"--neighbours: {against.name} is not a dataset with training images")
    if neighbours and shape != theirs:
        raise UserError(
            f"--neighbours: {name} has images of {_times(shape)}, {against.name} {_times(theirs)}"
        )


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def features_of(images: ImageSet, extractor: Extractor, progress: Progress) -> Tensor:
    """Features of images; those of a dataset come from the cache, or are added to it."""
    if images.features is not None:
        progress(len(images.features))
        return images.features
    if images.dataset is None:
        return extract(extractor, images.pixels, progress)
    return cached_features(images.dataset, images.split, extractor, cache_folder(), progress)


def reference_of(
    against: ImageSet, extractor: Extractor, samples: int, progress: Progress = lambda images: None
) -> Reference:
    """A set of images as the reference for sets of `samples` samples."""
    features, folder = features_of(against, extractor, progress), None
    if against.dataset is not None:
        folder = cache_folder() / address_of(against.dataset, against.split, extractor).key
    return make_reference(features, extractor, against.name, against.hash(), samples, folder=folder)


def near_training_images(dataset: datasets.Dataset, workspace: Workspace) -> Neighbourhood:
    """The training images to search for copies: in pixels, and in features of the dataset's small
    classifier."""
    small = find_extractor(dataset.name, workspace.bundles)
    flips = DATASETS[dataset.name].flips
    return Neighbourhood(small, None, dataset, flips, len(dataset.train.pixels))


def evaluate(
    samples: ImageSet,
    reference: Reference,
    extractor: Extractor,
    which: Sequence[str],
    knobs: Mapping[str, Any] | None = None,
    near: Neighbourhood | None = None,
    progress: Progress = lambda images: None,
) -> Evaluation:
    """Measure every metric of `which`, and search for copies if `near` is given."""
    measured = measure(features_of(samples, extractor, progress), reference, which)
    copies = {} if near is None else near.find(samples.pixels)
    panel = None if near is None else near.panel(samples.pixels, copies)
    protocol = reference.protocol._replace(streams=samples.streams)
    return Evaluation(samples, measured, protocol, knobs or {}, copies, panel)
