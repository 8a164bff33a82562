"""Loading and checking what the cells of a study share, before any work starts."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data import datasets
from ablate.diffusion.inits import INITS, Source
from ablate.generate.source import check_noise_range, check_starts, make_source
from ablate.metrics.copy_search import Neighbourhood
from ablate.metrics.extractors.extractor import Extractor, find_extractor
from ablate.metrics.reference import Reference, make_reference, measure
from ablate.metrics.registry import check_counts, measured_in_studies
from ablate.models import bundle as bundles
from ablate.samplers.noise import STREAMS
from ablate.study.definition import Study
from ablate.study.domain import Scalar


class Setup(NamedTuple):
    """Everything that the cells of a study share."""

    study: Study
    bundle: bundles.Bundle
    extractor: Extractor
    reference: Reference
    source: Source
    device: str
    neighbourhood: Neighbourhood  # of the training images
    left_out: bool = False  # without initialisations whose images are not on this machine

    @property
    def identity(self) -> str:
        """Hash of everything that determines the study's results."""
        streams = f"streams {STREAMS}"
        return self.study.identity(self.bundle.hash, self.extractor.hash, streams)

    def measure(self, features: torch.Tensor) -> dict[str, float]:
        """Distances of a set of features to the reference."""
        return {name: each.value for name, each in measure(features, self.reference).items()}

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


def prepare(study: Study, workspace: Workspace, device: str = "cpu") -> Setup:
    """Load what a study needs; an error if anything is missing or does not fit."""
    path = bundles.find(study.bundle, workspace)
    bundle = bundles.read(path)
    card = bundle.card
    whole, study = study, available(study, bundle)
    _check_noise_ranges(study, card)
    extractor = find_extractor(card.dataset, workspace.bundles, card.extractor)
    features = bundle.features[SPLITS[study.reference]]
    name, seeds = f"{card.dataset}/{study.reference}", len(study.seeds)
    reference = make_reference(
        features, extractor, name, card.dataset_hash, study.samples, seeds, STREAMS
    )
    fewest = min((study.samples, *study.rungs))
    check_counts(measured_in_studies(), fewest, len(reference.features), extractor.net.width)
    sides = bundle.features["train"], bundle.features["heldout"]
    near = Neighbourhood(extractor, sides, _training_images(card), card.recipe.flips)
    source = make_source(bundle, [str(name) for name in study.values("init")])
    check_starts(map(study.settings, study.corners()), source)
    return Setup(study, bundle, extractor, reference, source, device, near, study != whole)


def _training_images(card: bundles.Card) -> datasets.Dataset | None:
    """The bundle's dataset, or None if it is not on this machine or has another hash."""
    try:
        dataset = datasets.load(card.dataset)
    except UserError:
        return None
    return dataset if dataset.hash() == card.dataset_hash else None


SPLITS = {"train": "train", "test": "heldout"}
"""Names of the splits: in study files -> in bundles."""


def _check_noise_ranges(study: Study, card: bundles.Card) -> None:
    """Raise an error if a configuration has noise levels that the network was not trained for."""
    for params in study.corners():
        try:
            check_noise_range(study.settings(params), card)
        except UserError as error:
            knobs = ", ".join(f"{k} = {v}" for k, v in params.items())
            raise UserError(f"{error} [{knobs}]") from None
