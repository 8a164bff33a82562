"""Any set of images against any other: distances with intervals, neighbours, and their protocol."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.provenance import provenance
from ablate.core.validation import one_line
from ablate.core.workspace import Workspace
from ablate.data import datasets
from ablate.data.contact_sheet import save_grid
from ablate.data.image_files import read_images
from ablate.data.registry import DATASETS
from ablate.experiment.showcase import setup_of_one
from ablate.generate.draw import draw
from ablate.generate.presets import few_step_settings
from ablate.generate.settings import Settings, listens
from ablate.metrics.copies import Copies
from ablate.metrics.copy_search import Neighbourhood
from ablate.metrics.estimate import Estimate, Measured, paired_difference
from ablate.metrics.extractors.extractor import Extractor, extract, find_extractor
from ablate.metrics.extractors.inception import inception
from ablate.metrics.extractors.resize import RESIZES
from ablate.metrics.feature_cache import address_of, cache_folder, cached_features
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import Reference, make_reference, measure
from ablate.metrics.registry import check_counts
from ablate.models import bundle as bundles
from ablate.nets.classifier import Classifier
from ablate.results import require_same
from ablate.tracking import Tracker

FEW_STEP_LEVELS = 18
"""Of the solver that samples a bundle if nothing else is said."""

Progress = Callable[[int], None]


class ImageSet(NamedTuple):
    name: str
    pixels: Tensor  # uint8, [N, C, H, W]
    dataset: datasets.Dataset | None = None  # that it is a split of
    split: str = ""  # train or test

    def hash(self) -> str:
        if self.dataset is not None:
            return self.dataset.hash()
        return hashlib.sha256(self.pixels.numpy().tobytes()).hexdigest()[:16]


class Evaluation(NamedTuple):
    samples: ImageSet
    measured: dict[str, Measured]  # by name without N
    protocol: Protocol
    knobs: Mapping[str, Any]  # that drew the samples; empty if they came as files
    neighbours: dict[str, Copies]  # by space; empty if not asked for
    panel: Tensor | None

    def estimates(self) -> dict[str, Estimate]:
        """By a name that says N: fid_n1024."""
        count = len(self.samples.pixels)
        return {f"{name}_n{count}": each.estimate for name, each in self.measured.items()}

    def as_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        near = {
            space: _told({name: each.estimate for name, each in found.measured().items()})
            | {"c_t": found.c_t, "suspects": found.suspects}
            for space, found in self.neighbours.items()
        }
        return {
            "samples": self.samples.name,
            "against": self.protocol.reference,
            "metrics": _told(self.estimates()),
            "protocol": {**self.protocol._asdict(), "hash": self.protocol.hash},
            "knobs": dict(self.knobs),
            "neighbours": near,
        }


def _told(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {
        name: {"value": found.value, "error": found.error, "interval": list(found.interval)}
        for name, found in estimates.items()
    }


def comparison(first: Evaluation, second: Evaluation) -> dict[str, Any]:
    """The first, with the second and what is between them under `versus`."""
    between = {"difference": _told(differences(first, second))}
    return first.as_json() | {"versus": second.as_json() | between}


def image_set(text: str) -> ImageSet:
    """`cifar10/test` and the like, a folder of images, or a tensor file."""
    name, _, split = text.partition("/")
    if name in DATASETS and split in ("", "train", "test"):
        dataset, split = datasets.load(name), split or "test"
        part = dataset.train if split == "train" else dataset.heldout
        return ImageSet(f"{name}/{split}", part.pixels, dataset, split)
    return ImageSet(Path(text).resolve().name, read_images(Path(text)))


def find_features(name: str, resize: str, workspace: Workspace) -> Extractor:
    """`inception`, or a dataset's small classifier by the dataset's name."""
    if resize not in RESIZES:
        raise UserError(f"--resize {resize}: not one of {', '.join(RESIZES)}")
    if name == "inception":
        return inception(resize)
    if name not in DATASETS:
        known = ", ".join(["inception", *DATASETS])
        raise UserError(f"--extractor {name}: not one of {known}")
    return find_extractor(name, workspace.bundles)


def settings_of(card: bundles.Card, given: Sequence[str]) -> Settings:
    """The few-step solver's, with `knob=value` in the place of its own."""
    base = few_step_settings(FEW_STEP_LEVELS, (card.s_min, card.s_max))
    chosen = base.model_dump(exclude_none=True, exclude_defaults=True)
    wanted = dict(_knob(text) for text in given)
    chosen |= wanted
    applying = {k: v for k, v in chosen.items() if k in wanted or listens(k, chosen)}
    try:
        return Settings.model_validate(applying)
    except ValidationError as error:
        raise UserError(f"--set: {one_line(error)}") from None


def _knob(text: str) -> tuple[str, str]:
    knob, equals, value = text.partition("=")
    if not equals or knob not in Settings.model_fields:
        known = ", ".join(Settings.model_fields)
        raise UserError(f"--set {text}: not KNOB=VALUE with one of {known}")
    return knob, value


def drawn(
    bundle: str,
    settings: Settings,
    samples: int,
    seed: int,
    workspace: Workspace,
    device: str,
    progress: Callable[[], None] = lambda: None,
) -> ImageSet:
    """Samples of a bundle; a configuration that diverges has none to measure."""
    setup = setup_of_one(workspace, bundle, settings, samples, seed, device)
    found = draw(setup.bundle.score_model, setup.source, settings, seed, samples, device, progress)
    if found.reason:
        raise UserError(f"{bundle}: diverged ({found.reason})")
    return ImageSet(Path(bundle).stem, found.pixels)


def check(
    name: str,
    shape: tuple[int, ...],
    count: int,
    against: ImageSet,
    extractor: Extractor,
    which: Sequence[str],
    neighbours: bool,
) -> None:
    """Everything that can be wrong with `count` samples of `shape`, before the expensive part."""
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
    """A dataset's from the cache, computed now if they are not there yet."""
    if images.dataset is None:
        return extract(extractor, images.pixels, progress)
    return cached_features(images.dataset, images.split, extractor, cache_folder(), progress)


def reference_of(
    against: ImageSet, extractor: Extractor, samples: int, progress: Progress = lambda images: None
) -> Reference:
    """A set of images as the reference for sets of so many samples."""
    features, folder = features_of(against, extractor, progress), None
    if against.dataset is not None:
        folder = cache_folder() / address_of(against.dataset, against.split, extractor).key
    return make_reference(features, extractor, against.name, against.hash(), samples, folder=folder)


def evaluate(
    samples: ImageSet,
    reference: Reference,
    extractor: Extractor,
    which: Sequence[str],
    knobs: Mapping[str, Any] | None = None,
    near: Neighbourhood | None = None,
    progress: Progress = lambda images: None,
) -> Evaluation:
    """Every metric asked for."""
    measured = measure(features_of(samples, extractor, progress), reference, which)
    found = {} if near is None else near.find(samples.pixels)
    panel = None if near is None else near.panel(samples.pixels, found)
    return Evaluation(samples, measured, reference.protocol, knobs or {}, found, panel)


def differences(first: Evaluation, second: Evaluation) -> dict[str, Estimate]:
    """First less second, by the names of the first: of samples drawn from the same noise."""
    require_same(first.protocol._asdict(), second.protocol._asdict())
    return {
        name: paired_difference(mine, second.measured[metric])
        for (metric, mine), name in zip(first.measured.items(), first.estimates(), strict=True)
    }


def near_training_images(dataset: datasets.Dataset, workspace: Workspace) -> Neighbourhood:
    """In pixels, and in features of the dataset's small classifier, of all training images."""
    small = find_extractor(dataset.name, workspace.bundles)
    train, test = (
        cached_features(dataset, split, small, cache_folder()) for split in ("train", "test")
    )
    return Neighbourhood(small, (train, test), dataset, DATASETS[dataset.name].flips)


def record(evaluation: Evaluation, workspace: Workspace, device: str) -> None:
    """To MLflow: every number, how it was measured, and pictures."""
    tracker, told = Tracker(workspace), evaluation.as_json()
    protocol = {f"protocol.{key}": str(value) for key, value in told["protocol"].items()}
    params = {"samples": evaluation.samples.name, "against": evaluation.protocol.reference}
    run_id = tracker.open_evaluation(evaluation.samples.name, provenance(device) | protocol)
    with tracker.closing(run_id), tempfile.TemporaryDirectory() as scratch:
        tracker.log(run_id, params=params | dict(evaluation.knobs))
        metrics: dict[str, float] = {}
        for name, found in evaluation.estimates().items():
            metrics |= {name: found.value, f"{name}.error": found.error}
        for space, copies in evaluation.neighbours.items():
            metrics |= copies.values(space)
        tracker.log(run_id, metrics)
        folder = Path(scratch)
        save_grid(folder / "samples.png", evaluation.samples.pixels[:64], columns=16)
        if (panel := evaluation.panel) is not None:
            save_grid(folder / "neighbours.png", panel.flatten(0, 1), panel.shape[1])
        for picture in sorted(folder.iterdir()):
            tracker.log_picture(run_id, picture)
        (folder / "evaluation.json").write_text(json.dumps(told, indent=1))
        tracker.client.log_artifact(run_id, str(folder / "evaluation.json"))
