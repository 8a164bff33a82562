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

from ablate import bundle as bundles
from ablate import data
from ablate.errors import UserError
from ablate.extractor import Extractor, extract, find_extractor
from ablate.home import Home
from ablate.image_files import read_images
from ablate.inception import inception
from ablate.metrics.copies import Copies
from ablate.metrics.estimate import Estimate, Measured
from ablate.metrics.features import cache_folder, cached_features
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import Reference, check_counts, measure
from ablate.neighbourhood import Neighbourhood, neighbourhood
from ablate.pictures import save_grid
from ablate.portrait import few_step_settings, lab_of_one
from ablate.provenance import provenance
from ablate.resize import RESIZES
from ablate.settings import Settings, listens
from ablate.spec import one_line
from ablate.tracking import Tracker
from ablate.train_features import RECIPES
from ablate.trial import draw

FEW_STEP_LEVELS = 18
"""Of the solver that samples a bundle if nothing else is said."""

Progress = Callable[[int], None]


class ImageSet(NamedTuple):
    name: str
    pixels: Tensor  # uint8, [N, C, H, W]
    dataset: data.Dataset | None = None  # that it is a split of
    split: str = ""  # train or test

    def hash(self) -> str:
        if self.dataset is not None:
            return self.dataset.hash()
        return hashlib.sha256(self.pixels.numpy().tobytes()).hexdigest()[:16]


class Evaluation(NamedTuple):
    samples: ImageSet
    against: str
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
        told = {
            name: {"value": found.value, "error": found.error, "interval": list(found.interval)}
            for name, found in self.estimates().items()
        }
        near = {
            space: found.values(space) | {"suspects": found.suspects}
            for space, found in self.neighbours.items()
        }
        return {
            "samples": self.samples.name,
            "against": self.against,
            "metrics": told,
            "protocol": {**self.protocol._asdict(), "hash": self.protocol.hash},
            "knobs": dict(self.knobs),
            "neighbours": near,
        }


def image_set(text: str, progress: Progress = lambda images: None) -> ImageSet:
    """`cifar10/test` and the like, a folder of images, or a tensor file."""
    name, _, split = text.partition("/")
    if name in data.LOADERS and split in ("", "train", "test"):
        dataset, split = data.load(name), split or "test"
        part = dataset.train if split == "train" else dataset.heldout
        return ImageSet(f"{name}/{split}", part.pixels, dataset, split)
    pixels = read_images(Path(text), lambda done, total: progress(1))
    return ImageSet(Path(text).name, pixels)


def find_features(name: str, resize: str, home: Home) -> Extractor:
    """`inception`, or a dataset's small classifier by the dataset's name."""
    if resize not in RESIZES:
        raise UserError(f"--resize {resize}: not one of {', '.join(RESIZES)}")
    if name == "inception":
        return inception(resize)
    if name not in data.LOADERS:
        known = ", ".join(["inception", *data.LOADERS])
        raise UserError(f"--extractor {name}: not one of {known}")
    return find_extractor(name, home.bundles)


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
    home: Home,
    device: str,
    progress: Callable[[], None] = lambda: None,
) -> ImageSet:
    """Samples of a bundle; a configuration that diverges has none to measure."""
    lab = lab_of_one(home, bundle, settings, samples, seed, device)
    found = draw(lab.bundle, lab.source, settings, seed, samples, device, progress)
    if found.reason:
        raise UserError(f"{bundle}: diverged ({found.reason})")
    return ImageSet(Path(bundle).stem, found.pixels)


def check(
    samples: ImageSet, reference: ImageSet, extractor: Extractor, which: Sequence[str]
) -> None:
    """Everything that can be wrong, before the expensive part."""
    check_counts(which, len(samples.pixels), len(reference.pixels), extractor.net.width)
    if extractor.resize != "none":
        return
    wanted = (extractor.card["net"]["channels"],)
    for images in (samples, reference):
        shape = tuple(images.pixels.shape[1:])
        if shape[:1] != wanted or shape != tuple(reference.pixels.shape[1:]):
            theirs = "×".join(map(str, shape))
            raise UserError(
                f"{images.name}: images of {theirs} do not fit {extractor.name}, which resizes"
                " nothing; --extractor inception takes any size"
            )


def features_of(images: ImageSet, extractor: Extractor, progress: Progress) -> Tensor:
    """A dataset's from the cache, computed now if they are not there yet."""
    if images.dataset is None:
        return extract(extractor, images.pixels, progress)
    return cached_features(images.dataset, images.split, extractor, cache_folder(), progress)


def evaluate(
    samples: ImageSet,
    reference: ImageSet,
    extractor: Extractor,
    which: Sequence[str],
    knobs: Mapping[str, Any] | None = None,
    near: Neighbourhood | None = None,
    progress: Progress = lambda images: None,
) -> Evaluation:
    """Features of both, then every metric asked for; `progress` counts images of both."""
    check(samples, reference, extractor, which)
    protocol = Protocol(
        extractor=extractor.name,
        extractor_hash=extractor.hash,
        resize=extractor.resize,
        quantised=True,
        reference=reference.name,
        reference_hash=reference.hash(),
        reference_count=len(reference.pixels),
        samples=len(samples.pixels),
    )
    theirs = Reference(features_of(reference, extractor, progress), protocol)
    mine = features_of(samples, extractor, progress)
    found = {} if near is None else near.find(samples.pixels)
    panel = None if near is None else near.panel(samples.pixels, found)
    measured = measure(mine, theirs, which)
    return Evaluation(samples, reference.name, measured, protocol, knobs or {}, found, panel)


def near_training_images(
    images: ImageSet, home: Home, progress: Progress = lambda images: None
) -> Neighbourhood:
    """In pixels, and in features of the dataset's small classifier, of all training images."""
    if images.dataset is None:
        raise UserError(f"--neighbours: {images.name} is not a dataset with training images")
    dataset, small = images.dataset, find_extractor(images.dataset.name, home.bundles)
    sides = [
        cached_features(dataset, split, small, cache_folder(), progress)
        for split in ("train", "test")
    ]
    return neighbourhood(small, (sides[0], sides[1]), dataset, RECIPES[dataset.name].flips)


def record(evaluation: Evaluation, home: Home, device: str) -> None:
    """To MLflow: every number, how it was measured, and pictures."""
    tracker, told = Tracker(home), evaluation.as_json()
    protocol = {f"protocol.{key}": str(value) for key, value in told["protocol"].items()}
    params = {"samples": evaluation.samples.name, "against": evaluation.against}
    run_id = tracker.open_evaluation(
        evaluation.samples.name, params | dict(evaluation.knobs), provenance(device) | protocol
    )
    with tracker.closing(run_id), tempfile.TemporaryDirectory() as scratch:
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
