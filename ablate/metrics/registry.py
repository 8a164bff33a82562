"""The registry of metrics. To add one, write a file with its function and add a record here.

Importing this module imports no torch: records refer to functions by name, and a function is
imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ablate.core.errors import UserError
from ablate.core.registry import Registry
from ablate.core.unknown_names import unknown

Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class Metric:
    """One number that describes a set of samples, and all that the rest of the package needs of it.

    measure: `(samples' features, Reference) -> {name: Measured}`, a function or a reference
        "module:name". Metrics that share a function are measured in one call. None for a number
        that comes with the samples, such as NFE.
    fewest: the fewest images that either set may have.
    fewest_a_feature: the same, for each feature of the extractor.
    prunes: whether its standard error describes the samples, so that a trial may be pruned by it.
    steady: whether its mean is the same for any number of samples, so that values of trials with
        fewer samples may stand beside others.
    in_studies: whether every cell of a study measures it.
    known_early: whether it is known before any sample is drawn.
    """

    name: str
    label: str
    direction: Direction
    measure: str | Callable[..., Any] | None = None
    fewest: int = 2
    fewest_a_feature: int = 0
    prunes: bool = False
    steady: bool = False
    in_studies: bool = True
    known_early: bool = False

    def fewest_images(self, features: int) -> int:
        """The fewest images that either set may have, for an extractor with this many features."""
        return max(self.fewest, self.fewest_a_feature * features)


COVERAGE = "ablate.metrics.coverage:measure"
"""Measures precision, recall, density and coverage in one call."""

METRICS: Registry[Metric] = Registry(
    "metric",
    "ablate.metrics",
    Metric,
    [
        Metric("kid", "KID", "minimize", "ablate.metrics.kid:measure", prunes=True, steady=True),
        Metric("fid", "FID", "minimize", "ablate.metrics.fid:measure", prunes=True),
        Metric("precision", "precision", "maximize", COVERAGE, fewest=6, prunes=True, steady=True),
        Metric("recall", "recall", "maximize", COVERAGE, fewest=6),
        Metric("density", "density", "maximize", COVERAGE, fewest=6, prunes=True, steady=True),
        Metric("coverage", "coverage", "maximize", COVERAGE, fewest=6),
        Metric(
            "fid_infinity",
            "FID ∞",
            "minimize",
            "ablate.metrics.fid_infinity:measure",
            fewest=16,
            fewest_a_feature=4,
            in_studies=False,
        ),
        Metric("nfe", "NFE", "minimize", known_early=True),
        Metric("seconds", "seconds", "minimize"),
        Metric("clamp_rate", "clamp rate", "minimize"),
        Metric("flip_rate", "flip rate", "minimize"),
    ],
)


def measured_in_studies() -> tuple[str, ...]:
    """The metrics of samples' features that every cell of a study measures."""
    return tuple(n for n, m in METRICS.items() if m.measure is not None and m.in_studies)


def objectives() -> tuple[str, ...]:
    """The metrics that a study may optimise."""
    return tuple(name for name, metric in METRICS.items() if metric.in_studies)


def together(names: Iterable[str]) -> tuple[str, ...]:
    """These metrics and all others that the same calls measure, in the registry's order."""
    wanted = list(names)
    for name in wanted:
        if name not in METRICS or METRICS[name].measure is None:
            known = [n for n, m in METRICS.items() if m.measure is not None]
            raise UserError(unknown("metric", name, known, "is not one to measure images by"))
    calls = {METRICS[name].measure for name in wanted}
    return tuple(name for name, metric in METRICS.items() if metric.measure in calls)


def check_counts(names: Iterable[str], samples: int, reference: int, features: int) -> None:
    """Raise an error if there are too few images for one of these metrics."""
    few = min(samples, reference)
    for name in names:
        fewest = METRICS[name].fewest_images(features)
        if few < fewest:
            what = "samples" if samples <= reference else "reference images"
            raise UserError(f"{name} needs at least {fewest:,} {what}, there are {few:,}")
