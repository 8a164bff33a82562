"""Loading and checking what the cells of a study share, before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data import datasets
from ablate.data.registry import DATASETS
from ablate.diffusion.inits import INITS, Source
from ablate.experiment.corners import check_corners
from ablate.experiment.networks import Training, training_of
from ablate.experiment.real_features import (
    SPLITS,
    Bar,
    RealFeatures,
    Surroundings,
    by_inception,
    by_small_classifier,
    no_bar,
)
from ablate.generate.source import make_source
from ablate.metrics.copies import Copies
from ablate.metrics.copy_search import Neighbourhood
from ablate.metrics.extractors.extractor import Extractor
from ablate.metrics.image_codes import find_codes
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import Reference, make_reference, measure
from ablate.metrics.registry import check_counts, measured_in_studies
from ablate.models import bundle as bundles
from ablate.models.score_model import ScoreModel
from ablate.results import ERROR
from ablate.samplers.noise import STREAMS
from ablate.study.definition import Study
from ablate.study.domain import Scalar
from ablate.study.extractors import with_extractor


class Also(NamedTuple):
    """An extractor that measures confirmed configurations beside the study's own."""

    extractor: Extractor
    protocol: Protocol
    reference: Callable[[], Reference]  # loads hundreds of MB the first time


class Setup(NamedTuple):
    """Everything that the cells of a study share."""

    study: Study
    bundle: bundles.Bundle
    extractor: Extractor
    reference: Reference
    source: Source
    device: str
    neighbourhood: Neighbourhood  # of the training images
    real: RealFeatures  # of training and held-out images, by the extractor
    also: Mapping[str, Also]  # other extractors, by name, for what is confirmed
    left_out: bool = False  # without initialisations whose images are not on this machine
    guides: Mapping[str, bundles.Bundle] = MappingProxyType({})  # networks that guide, by name
    training: Training | None = None  # of networks that the study trains; None: it has the bundle's
    files: tuple[tuple[Path, str], ...] = ()  # of the bundle and the guides, with their hashes

    @property
    def score_model(self) -> ScoreModel:
        """The network that is sampled, with those that may guide it."""
        guides = {name: guide.score_model for name, guide in self.guides.items()}
        return self.bundle.score_model._replace(guides=guides)

    @property
    def identity(self) -> str:
        """Hash of everything that determines the study's results."""
        streams = f"streams {STREAMS}"
        guides = [f"guide {name} {guide.hash}" for name, guide in sorted(self.guides.items())]
        recipe = [f"recipe {self.training.hash}"] if self.training else []
        return self.study.identity(self.bundle.hash, self.extractor.hash, streams, *guides, *recipe)

    def measure(self, features: torch.Tensor) -> dict[str, float]:
        """Distances of a set of features to the reference, and their errors over such sets."""
        found = measure(features, self.reference)
        errors = {name + ERROR: each.sampling_error for name, each in found.items()}
        return {name: each.value for name, each in found.items()} | errors

    @property
    def searches_own_features(self) -> bool:
        """Whether copies are searched in the features that the study measures by."""
        return self.extractor.hash == self.neighbourhood.extractor.hash

    def find_copies(
        self, pixels: torch.Tensor, features: torch.Tensor, mirrored: torch.Tensor | None = None
    ) -> dict[str, Copies]:
        """Search for the neighbours of samples; features are theirs by the study's extractor."""
        if self.searches_own_features:
            return self.neighbourhood.find(pixels, features, mirrored)
        return self.neighbourhood.find(pixels)

    @property
    def key(self) -> str:
        """The name of the study in the databases."""
        return f"{self.study.name}/{self.study.budget}/{self.identity}"


def available(study: Study, bundle: bundles.Bundle) -> Study:
    """The study without the initialisations that need training images, if these are not on this
    machine and there are other initialisations."""
    lacking = frozenset(name for name in study.values("init") if _needs_images(name, bundle))
    if not lacking or _training_images(bundle.card) is not None:
        return study
    return study.without("init", lacking)


def _needs_images(name: Scalar, bundle: bundles.Bundle) -> bool:
    """Whether a start needs training images: for itself, or for a fit that the bundle lacks."""
    if (init := INITS.get(str(name))) is None:
        return False
    return init.leaks_data or (init.needs_mixture and bundle.mixture is None)


def prepare(
    study: Study,
    workspace: Workspace,
    device: str = "cpu",
    bar: Bar = no_bar,
    compute: bool = True,
) -> Setup:
    """Load what a study needs; an error if anything is missing or does not fit.

    bar: shows the progress of reference features that are computed first, by the Inception.
    compute: False for a plan, which needs the cost of everything and no features.
    """
    study = with_extractor(study, device)
    path = bundles.find(study.bundle, workspace)
    bundle = bundles.read(path)
    card = bundle.card
    whole, study = study, available(study, bundle)
    training = training_of(study, card, workspace, device)
    source = make_source(bundle, [str(name) for name in study.values("init")])
    guides = check_corners(study, bundle, training, source, workspace)
    dataset = _training_images(card)
    around = Surroundings(path, card, dataset, workspace, device, bar, compute)
    small = by_small_classifier(bundle, workspace)
    real = by_inception(around, study.reference) if study.extractor == "inception" else small
    reference = reference_of(real, study, card)
    fewest = min((study.samples, *study.rungs, study.confirm.samples or study.samples))
    check_counts(measured_in_studies(), fewest, len(reference.features), real.extractor.net.width)
    return Setup(
        study,
        bundle,
        real.extractor,
        reference,
        source,
        device,
        _neighbourhood(small, card, dataset, workspace, compute),
        real,
        _also(study, around),
        study != whole,
        guides,
        training,
        (
            (path, bundle.hash),
            *((bundles.find(k, workspace), each.hash) for k, each in guides.items()),
        ),
    )


def reference_of(real: RealFeatures, study: Study, card: bundles.Card) -> Reference:
    """The study's reference split, in the features of one extractor."""
    split = SPLITS[study.reference]
    return make_reference(
        real.splits[split],
        real.extractor,
        f"{card.dataset}/{study.reference}",
        card.dataset_hash,
        study.samples,
        len(study.seeds),
        STREAMS,
        real.folders.get(split),
    )


def _also(study: Study, around: Surroundings) -> dict[str, Also]:
    """The extractors that measure what is confirmed, too; an error if they cannot."""

    @cache
    def load() -> Reference:
        return reference_of(by_inception(around, study.reference), study, around.card)

    if "inception" not in study.also or study.extractor == "inception":
        return {}
    real = by_inception(around, study.reference)
    protocol = reference_of(real, study, around.card).protocol
    return {"inception": Also(real.extractor, protocol, load)}


def _neighbourhood(
    small: RealFeatures,
    card: bundles.Card,
    dataset: datasets.Dataset | None,
    workspace: Workspace,
    compute: bool,
) -> Neighbourhood:
    """The training images to search for copies: all of them if the dataset or its codes are here.

    The small classifier's features serve studies in other features, too: the Inception would take
    an hour for 60,000 images. Those of the bundle are a part, and not in the dataset's order, which
    mirrored images need.
    """
    total, flips = training_images(card, dataset), card.recipe.flips
    both = {"train", "heldout"} <= small.splits.keys()
    sides = (small.splits["train"], small.splits["heldout"]) if both else None
    if dataset is not None and (flips or len(small.splits["train"]) != total):
        sides = None
    codes = None
    if dataset is None:
        codes = find_codes(card.dataset, card.dataset_hash, card.extractor, workspace.bundles)
    return Neighbourhood(small.extractor, sides, dataset, flips, total, compute, codes)


def training_images(card: bundles.Card, dataset: datasets.Dataset | None) -> int | None:
    """The size of the training set of a bundle's dataset, if anything says it."""
    if dataset is not None:
        return len(dataset.train.pixels)
    known = DATASETS[card.dataset].training_images if card.dataset in DATASETS else {}
    return card.training_images or known.get(card.dataset_hash)


def _training_images(card: bundles.Card) -> datasets.Dataset | None:
    """The bundle's dataset, or None if it is not on this machine or has another hash."""
    try:
        dataset = datasets.load(card.dataset)
    except UserError:
        return None
    return dataset if dataset.hash() == card.dataset_hash else None
