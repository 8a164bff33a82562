"""Baselines to compare a study's trials with, measured by the same protocol."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ablate.data.datasets import to_pixels
from ablate.diffusion.inits import INITS
from ablate.experiment.prepare import Setup
from ablate.experiment.real_features import SPLITS
from ablate.metrics.extractors.extractor import extract
from ablate.results import INTERVAL, summarise
from ablate.samplers.noise import start_numbers


def baselines(setup: Setup) -> dict[str, dict[str, float]]:
    """Baseline -> metrics, measured as the trials are.

    Real images of the other split are the best possible value; they are missing if neither their
    features nor the images are here. Gaussians fitted to each class are what a sampler reaches
    without any network.
    """
    study, measured = setup.study, {}
    other = "test" if study.reference == "train" else "train"
    if sets := _real_sets(setup, SPLITS[other]):
        name = {"test": "held-out images", "train": "training images"}[other]
        name += _fewer(sets, study.samples, len(study.seeds))
        measured[name] = _with_intervals([setup.measure(each) for each in sets])
    fitted = [setup.measure(_without_network(setup, seed)) for seed in study.seeds]
    return measured | {"class-gaussian without network": _with_intervals(fitted)}


def _real_sets(setup: Setup, split: str) -> list[torch.Tensor]:
    """Features of real images, a set a seed; of these images alone if the rest is not cached."""
    of_images, dataset = setup.real.splits.get(split), setup.neighbourhood.dataset
    if of_images is not None:
        return disjoint_sets(of_images, setup.study.samples, setup.study.seeds)
    if dataset is None:
        return []
    images = getattr(dataset, split).pixels
    sets = disjoint_sets(images, setup.study.samples, setup.study.seeds)
    return [extract(setup.extractor, pixels) for pixels in sets]


def disjoint_sets(images: torch.Tensor, samples: int, seeds: Sequence[int]) -> list[torch.Tensor]:
    """Up to one set a seed of `samples` rows of images, [M, …], no row in two of them.

    Sets that share images differ less than independent ones, and the interval over them would be
    too small. So there are fewer sets where there are fewer images, each of as many images as a
    trial has samples, because FID depends on that number. If the images do not fill one set, they
    are it.
    """
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seeds[0]))
    count = min(samples, len(images))
    most = min(len(seeds), len(images) // count)
    return [images[order[k * count : (k + 1) * count]] for k in range(most)]


def _fewer(sets: Sequence[torch.Tensor], samples: int, seeds: int) -> str:
    """What the name says of fewer images or sets than trials have samples or seeds."""
    count = len(sets[0])  # MLflow allows neither brackets nor commas
    if count < samples:
        return f" - only {count}"
    return "" if len(sets) == seeds else f" - only {len(sets) * count} in {_times(len(sets))}"


def _times(sets: int) -> str:
    return "one set" if sets == 1 else f"{sets} sets"


def _without_network(setup: Setup, seed: int) -> torch.Tensor:
    """Features of samples of the class Gaussians, [N, f]."""
    size = setup.bundle.moments.everything.mean.numel()
    u, z = start_numbers(seed, range(setup.study.samples), size)
    x = (
        INITS["class-gaussian"]
        .draw(setup.source, 0.0, u, z)
        .exp()
        .view(-1, *setup.bundle.card.shape)
    )
    return extract(setup.extractor, to_pixels(x)[0])


def _with_intervals(rows: list[dict[str, float]]) -> dict[str, float]:
    means, widths = summarise(rows)
    return means | {name + INTERVAL: width for name, width in widths.items()}
