"""What the cells of a study share, loaded and checked before any work starts."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ablate import bundle as bundles
from ablate import data
from ablate.errors import UserError
from ablate.extractor import Extractor, extract, find_extractor
from ablate.home import Home
from ablate.inits import INITS, LEAKS_DATA, PAPER_FITS, Source
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import MEASURED, Reference, check_counts, measure
from ablate.neighbourhood import Neighbourhood
from ablate.record import INTERVAL, summarise
from ablate.samplers.noise import start_numbers
from ablate.spec import Study


class Lab(NamedTuple):
    study: Study
    bundle: bundles.Bundle
    extractor: Extractor
    reference: Reference
    source: Source
    device: str
    neighbourhood: Neighbourhood  # of the training images

    @property
    def identity(self) -> str:
        """Hash of all that decides the study's results."""
        return self.study.identity(self.bundle.hash, self.extractor.hash)

    def measure(self, features: torch.Tensor) -> dict[str, float]:
        """Distances of a set of features to the reference."""
        return {name: each.value for name, each in measure(features, self.reference).items()}

    @property
    def key(self) -> str:
        return f"{self.study.name}/{self.study.budget}/{self.identity}"


def without_oracle(study: Study, home: Home) -> Study:
    """The study without the start that needs training images, where these are not at hand and there
    are other starts."""
    init = study.search.get("init")
    others = tuple(name for name in (init and init.choices) or () if name not in LEAKS_DATA)
    if init is None or not others or len(others) == len(init.choices or ()):
        return study
    if _training_images(bundles.read_card(bundles.find(study.bundle, home))) is not None:
        return study
    search = {**study.search, "init": init.model_copy(update={"choices": others})}
    left = study.model_copy(update={"search": search})
    if study.method == "grid":
        left = left.model_copy(update={"trials": min(study.trials, left.size())})
    return left


def prepare(study: Study, home: Home, device: str = "cpu") -> Lab:
    """Everything that can be wrong with a study's surroundings is found here."""
    path = bundles.find(study.bundle, home)
    card = bundles.read_card(path)
    _check_noise_range(study, card)
    extractor = find_extractor(card.dataset, home.bundles, card.extractor)
    bundle = bundles.read(path)
    reference = make_reference(bundle, extractor, study)
    fewest = min((study.samples, *study.rungs))
    check_counts(MEASURED, fewest, len(reference.features), extractor.net.width)
    source, features = _source(study, bundle), bundle.features
    sides = features["train"], features["heldout"]
    near = Neighbourhood(extractor, sides, _training_images(card), card.recipe.flips)
    return Lab(study, bundle, extractor, reference, source, device, near)


def _training_images(card: bundles.Card) -> data.Dataset | None:
    """The bundle's dataset, if it is on this machine and the same."""
    try:
        dataset = data.load(card.dataset)
    except UserError:
        return None
    return dataset if dataset.hash() == card.dataset_hash else None


SPLITS = {"train": "train", "test": "heldout"}
"""Names of the splits, as the field has them and as bundles do."""


def make_reference(bundle: bundles.Bundle, extractor: Extractor, study: Study) -> Reference:
    """From the features that travel with the bundle; no dataset is needed."""
    features = bundle.features[SPLITS[study.reference]]
    protocol = Protocol(
        extractor=extractor.name,
        extractor_hash=extractor.hash,
        resize=extractor.resize,
        quantised=True,
        reference=f"{bundle.card.dataset}/{study.reference}",
        reference_hash=bundle.card.dataset_hash,
        reference_count=len(features),
        samples=study.samples,
        seeds=len(study.seeds),
    )
    return Reference(features, protocol)


def _check_noise_range(study: Study, card: bundles.Card) -> None:
    """Refuse noise levels that the network was not trained for."""
    for params in study.corners():
        high, low = study.settings(params).noise_range()
        if high > card.s_max * (1 + 1e-9) or low < card.s_min * (1 - 1e-9):
            knobs = ", ".join(f"{k} = {v}" for k, v in params.items())
            raise UserError(
                f"bundle {card.name}: trained for noise levels {card.s_min} to {card.s_max},"
                f" study {study.name} asks for {low:.4g} to {high:.4g} [{knobs}]"
            )


def _source(study: Study, bundle: bundles.Bundle) -> Source:
    dataset, fit, images = bundle.card.dataset, PAPER_FITS.get(bundle.card.dataset), None
    wanted = study.values("init")
    if "lognormal-paper" in wanted and fit is None:
        known = ", ".join(PAPER_FITS)
        raise UserError(
            f"study {study.name}: init 'lognormal-paper': the paper has no fit for {dataset},"
            f" only for {known}"
        )
    if "forward-data" in wanted:
        pixels = data.load(dataset).train.pixels
        images = data.to_unit_interval_plus_one(pixels).flatten(1).log()
    return Source(bundle.moments, fit, images)


def yardsticks(lab: Lab) -> dict[str, dict[str, float]]:
    """What to hold the trials against, measured as they are: name -> metrics.

    Real held-out images are as good as it gets; Gaussians fitted to each class are what can be had
    without any network.
    """
    other = "test" if lab.study.reference == "train" else "train"
    images = lab.bundle.features[SPLITS[other]]
    count = min(lab.study.samples, len(images))
    real, fitted = [], []
    for seed in lab.study.seeds:
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
        real.append(lab.measure(images[order[:count]]))
        fitted.append(lab.measure(_without_network(lab, seed)))
    name = {"test": "held-out images", "train": "training images"}[other]
    if count < lab.study.samples:  # MLflow takes neither brackets nor commas in a name
        name += f" - only {count}"
    found = {name: real, "class-gaussian without network": fitted}
    return {name: _with_intervals(rows) for name, rows in found.items()}


def _without_network(lab: Lab, seed: int) -> torch.Tensor:
    size = lab.bundle.moments.everything.mean.numel()
    u, z = start_numbers(seed, range(lab.study.samples), size)
    x = INITS["class-gaussian"](lab.source, 0.0, u, z).exp().view(-1, *lab.bundle.card.shape)
    return extract(lab.extractor, data.to_pixels(x)[0])


def _with_intervals(rows: list[dict[str, float]]) -> dict[str, float]:
    means, widths = summarise(rows)
    return means | {name + INTERVAL: width for name, width in widths.items()}
