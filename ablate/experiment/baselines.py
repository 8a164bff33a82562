"""Baselines: what to compare a study's trials with, measured as they are."""

from __future__ import annotations

import torch

from ablate.data.datasets import to_pixels
from ablate.diffusion.inits import INITS
from ablate.experiment.prepare import SPLITS, Setup
from ablate.metrics.extractors.extractor import extract
from ablate.results import INTERVAL, summarise
from ablate.samplers.noise import start_numbers


def baselines(setup: Setup) -> dict[str, dict[str, float]]:
    """What to hold the trials against, measured as they are: name -> metrics.

    Real held-out images are as good as it gets; Gaussians fitted to each class are what can be had
    without any network.
    """
    other = "test" if setup.study.reference == "train" else "train"
    images = setup.bundle.features[SPLITS[other]]
    count = min(setup.study.samples, len(images))
    real, fitted = [], []
    for seed in setup.study.seeds:
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
        real.append(setup.measure(images[order[:count]]))
        fitted.append(setup.measure(_without_network(setup, seed)))
    name = {"test": "held-out images", "train": "training images"}[other]
    if count < setup.study.samples:  # MLflow takes neither brackets nor commas in a name
        name += f" - only {count}"
    found = {name: real, "class-gaussian without network": fitted}
    return {name: _with_intervals(rows) for name, rows in found.items()}


def _without_network(setup: Setup, seed: int) -> torch.Tensor:
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
