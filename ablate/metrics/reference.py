"""Real images to measure samples against, and every metric of a set of features by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from ablate.errors import UserError
from ablate.metrics import coverage, frechet, kernel
from ablate.metrics.estimate import Measured
from ablate.metrics.features import Tensors, kept
from ablate.metrics.protocol import Protocol


@dataclass(frozen=True)
class Reference:
    """Features of real images, [M, f], and what of them is worth computing once.

    With a `folder`, where the features are kept, once for every process that comes after.
    """

    features: Tensor
    protocol: Protocol
    folder: Path | None = None

    @cached_property
    def statistics(self) -> frechet.Statistics:
        found = self._once(
            "statistics", lambda: frechet.features_to_statistics(self.features)._asdict()
        )
        return frechet.Statistics(**found)

    @cached_property
    def within(self) -> kernel.Within:
        def compute() -> Tensors:
            found = kernel.within(self.features)
            return {"rows": found.rows, "pairs": torch.tensor(found.pairs, dtype=torch.float64)}

        found = self._once("kernel", compute)
        return kernel.Within(found["rows"], float(found["pairs"]))

    @cached_property
    def radii(self) -> Tensor:
        name = f"radii-{coverage.K}"
        return self._once(name, lambda: {"radii": coverage.radii(self.features)})["radii"]

    def _once(self, name: str, compute: Callable[[], Tensors]) -> Tensors:
        if self.folder is None:
            return compute()
        return kept(self.folder / f"{name}.safetensors", compute)


def _fid(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    return {"fid": frechet.measure_fid(samples, reference.features, reference.statistics)}


def _fid_infinity(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    return {"fid_infinity": frechet.measure_fid_infinity(samples, reference.features)}


def _kid(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    return {"kid": kernel.features_to_kid(samples, reference.features, reference.within)}


def _coverage(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    known = reference.features, coverage.K, reference.radii
    return coverage.features_to_coverage(samples, *known).measured()


METRICS: dict[str, Callable[[Tensor, Reference], dict[str, Measured]]] = {
    "fid": _fid,
    "fid_infinity": _fid_infinity,
    "kid": _kid,
    "coverage": _coverage,  # precision, recall, density and coverage
}

MEASURED = ("fid", "kid", "coverage")
"""Of these, what every cell of a study has."""

DISTANCES = ("kid", "fid", "precision", "recall", "density", "coverage")
"""The names that these give."""

FEWEST = {"fid": 2, "kid": 2, "coverage": coverage.K + 1}
"""Images of either set without which a metric has no value."""


def check_counts(which: Iterable[str], samples: int, reference: int, features: int) -> None:
    """Refuse what could not be measured, or not honestly."""
    most, few = frechet.FEWEST_A_FEATURE * features, min(samples, reference)
    for name in which:
        fewest = FEWEST.get(name, max(2 * frechet.ERROR_PIECES, most))
        if few < fewest:
            what = "samples" if samples <= reference else "reference images"
            raise UserError(f"{name} needs at least {fewest:,} {what}, there are {few:,}")


def measure(
    samples: Tensor, reference: Reference, which: Iterable[str] = MEASURED
) -> dict[str, Measured]:
    """Features of samples, [N, f] -> metrics."""
    found: dict[str, Measured] = {}
    for name in which:
        found |= METRICS[name](samples, reference)
    return found
