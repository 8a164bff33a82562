"""Confirmed configurations, measured by further extractors beside the study's own.

A study file asks for it by `also = ["inception"]`. The numbers have the extractor in their names,
such as kid_inception, and protocols of their own; nothing is ranked by them.
"""

from __future__ import annotations

from torch import Tensor

from ablate.experiment.prepare import Setup
from ablate.metrics.estimate import Measured
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import measure
from ablate.metrics.registry import measured_in_studies


def also_measured(setup: Setup, pixels: Tensor) -> dict[str, Measured]:
    """Every metric of samples, uint8, [N, C, H, W], by each extractor of `also`; empty without."""
    measured: dict[str, Measured] = {}
    for name, also in setup.also.items():
        found = measure(extract(also.extractor, pixels), also.reference())
        measured |= {f"{metric}_{name}": each for metric, each in found.items()}
    return measured


def also_protocols(setup: Setup, samples: int, seeds: int) -> dict[str, Protocol]:
    """How the numbers of `also_measured` are measured, for `samples` samples of each seed."""
    return {
        f"{metric}_{name}": also.protocol._replace(samples=samples, seeds=seeds)
        for name, also in setup.also.items()
        for metric in measured_in_studies()
    }
