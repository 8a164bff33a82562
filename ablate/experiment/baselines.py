"""Baselines to compare a study's trials with, measured by the same protocol."""

from __future__ import annotations

import torch

from ablate.data.datasets import to_pixels
from ablate.diffusion.inits import INITS
from ablate.experiment.prepare import SPLITS, Setup
from ablate.metrics.extractors.extractor import extract
from ablate.results import INTERVAL, summarise
from ablate.samplers.noise import start_numbers


def baselines(setup: Setup) -> dict[str, dict[str, float]]:
    """Baseline -> metrics, measured as the trials are.

    Real held-out images are the best possible value. Gaussians fitted to each class are what a
    sampler reaches without any network.
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
    if count < setup.study.samples:  # MLflow allows neither brackets nor commas
        name += f" - only {count}"
    rows = {name: real, "class-gaussian without network": fitted}
    return {name: _with_intervals(of_seeds) for name, of_seeds in rows.items()}


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
