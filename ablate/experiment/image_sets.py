"""Sets of images to evaluate: a dataset's split, files, or samples drawn from a bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.unknown_names import choice_of
from ablate.core.validation import one_line
from ablate.core.workspace import Workspace
from ablate.data import datasets
from ablate.data.image_files import read_images
from ablate.data.registry import DATASETS
from ablate.data.tensor_cache import cache_folder
from ablate.experiment.executors.place import Place
from ablate.experiment.portable import portable
from ablate.experiment.shard_files import ShardFiles, draw_shards
from ablate.experiment.shards import shard_jobs
from ablate.experiment.showcase import setup_of_one
from ablate.generate.draw import draw
from ablate.generate.known_knobs import known_knobs
from ablate.generate.presets import with_knobs
from ablate.generate.settings import Settings
from ablate.metrics.extractors.extractor import Extractor
from ablate.models import bundle as bundles
from ablate.samplers.noise import STREAMS


class ImageSet(NamedTuple):
    """Images with a name."""

    name: str
    pixels: Tensor  # uint8, [N, C, H, W]
    dataset: datasets.Dataset | None = None  # the dataset, if the images are a split of one
    split: str = ""  # train or test
    streams: int = 0  # version of the random numbers that drew them; 0: not drawn here
    features: Tensor | None = None  # by the extractor that measures them, if they came along

    def hash(self) -> str:
        """Hash of the images, or of their dataset."""
        if self.dataset is not None:
            return self.dataset.hash()
        return hashlib.sha256(self.pixels.numpy().tobytes()).hexdigest()[:16]


def image_set(text: str) -> ImageSet:
    """Read a dataset's split such as `cifar10/test`, a folder of images, or a tensor file."""
    name, _, split = text.partition("/")
    if name in DATASETS and split in ("", "train", "test"):
        dataset, split = datasets.load(name), split or "test"
        part = dataset.train if split == "train" else dataset.heldout
        return ImageSet(f"{name}/{split}", part.pixels, dataset, split)
    return ImageSet(Path(text).resolve().name, read_images(Path(text)))


def drawn(
    bundle: str,
    settings: Settings,
    samples: int,
    seed: int,
    workspace: Workspace,
    device: str,
    progress: Callable[[], None] = lambda: None,
) -> ImageSet:
    """Draw samples from a bundle; an error if the configuration diverges."""
    setup = setup_of_one(workspace, bundle, settings, samples, seed, device)
    drawing = draw(setup.score_model, setup.source, settings, seed, samples, device, progress)
    if drawing.reason:
        raise UserError(f"{bundle}: diverged ({drawing.reason})")
    return ImageSet(Path(bundle).stem, drawing.pixels, streams=STREAMS)


def drawn_in_shards(
    bundle: str,
    settings: Settings,
    samples: int,
    seed: int,
    workspace: Workspace,
    extractor: Extractor,
    place: Place,
    progress: Callable[[int], None] = lambda samples: None,
) -> tuple[ImageSet, ShardFiles]:
    """The same samples, drawn in shards wherever `place` says, with their features; and the files
    of the shards, to be removed when they have served."""
    setup = setup_of_one(workspace, bundle, settings, samples, seed, place.device)
    setup = setup._replace(extractor=extractor)
    files = ShardFiles(cache_folder(), setup, place.threads)
    jobs = shard_jobs(settings, seed, samples, setup.score_model.shape)
    with place.executor(portable(setup)) as executor:
        drawn, features, _ = draw_shards(jobs, executor, files, progress)
    if drawn.reason:
        files.remove()
        raise UserError(f"{bundle}: diverged ({drawn.reason})")
    images = ImageSet(Path(bundle).stem, drawn.pixels, streams=STREAMS, features=features)
    return images, files


def settings_of(card: bundles.Card, knobs: Sequence[str]) -> Settings:
    """The few-step solver's settings, changed by `knob=value` texts."""
    wanted = dict(_knob(text) for text in knobs)
    try:
        return with_knobs((card.s_min, card.s_max), wanted)
    except ValidationError as error:
        raise UserError(f"--set: {one_line(error)}") from None


def _knob(text: str) -> tuple[str, str | int | float]:
    """A knob and its value: a number if it reads as one, else a word."""
    knob, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: not KNOB=VALUE, such as chi=0.995")
    if knob not in known_knobs():
        raise UserError(f"--set {text}: no such knob; {choice_of(knob, known_knobs())}")
    for kind in (int, float):
        with suppress(ValueError):
            return knob, kind(value)
    return knob, value
