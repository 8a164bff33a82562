"""`ablate.evaluate`: how good images are, with intervals and the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.image_files import checked
from ablate.data.registry import DATASETS
from ablate.door.samples import Images
from ablate.metrics.estimate import Estimate
from ablate.metrics.extractors.extractor import extract, find_extractor
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import make_reference, measure
from ablate.metrics.registry import METRICS, check_counts, measured_in_studies, together
from ablate.models import bundle as bundles

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

SPLITS = {"train": "train", "test": "heldout"}


@dataclass(frozen=True, repr=False)
class Measurements:
    """Metrics of a set of images, each with its standard error and 95 % interval."""

    estimates: dict[str, Estimate]  # metric -> value and standard error
    protocol: Protocol

    def __getitem__(self, metric: str) -> Estimate:
        return self.estimates[metric]

    def table(self) -> pd.DataFrame:
        """A row a metric: value, standard error, and the ends of the 95 % interval."""
        import pandas as pd

        rows = {
            name: (found.value, found.error, *found.interval)
            for name, found in self.estimates.items()
        }
        columns = ["value", "error", "low", "high"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def __repr__(self) -> str:
        lines = [
            "{:10s} {:9.4f}   95 % interval {:.4f} to {:.4f}".format(
                METRICS[name].label, found.value, *found.interval
            )
            for name, found in self.estimates.items()
        ]
        return "\n".join([*lines, self._how()])

    def _how(self) -> str:
        p = self.protocol
        return (
            f"{p.samples} samples against {p.reference_count} images of {p.reference},"
            f" features of {p.extractor}, protocol {p.hash}"
        )

    def _repr_html_(self) -> str:
        html: str = self.table().to_html(float_format="{:.4f}".format)
        return f"{html}<p>{escape(self._how())}</p>"


def evaluate(
    images: Images | Tensor | Any,
    against: str,
    metrics: Sequence[str] | None = None,
    root: str | Path = ".",
) -> Measurements:
    """Measure images as studies do: in features of the dataset's small classifier.

    images: what `ablate.sample` gave, or uint8 pixels (floats in [0, 1]) of shape [N, C, H, W].
    against: DATASET/test or DATASET/train. The reference features travel with the dataset's
        bundle, so no dataset is needed. `ablate evaluate` on the command line measures against
        whole datasets, folders and files, and by the FID Inception.
    metrics: names of metrics; by default those that every study has.

    >>> import ablate
    >>> found = ablate.evaluate(ablate.sample("digits", samples=64), against="digits/test")
    >>> found["kid"].interval[0] < found["kid"].value
    True
    """
    dataset, _, split = against.partition("/")
    if dataset not in DATASETS or split not in SPLITS:
        known = ", ".join(DATASETS)
        raise UserError(f"against = {against!r}: not DATASET/test or DATASET/train of {known}")
    pixels = _pixels(images)
    workspace = Workspace(Path(root).resolve())
    bundle = bundles.read(bundles.find(dataset, workspace))
    extractor = find_extractor(dataset, workspace.bundles, bundle.card.extractor)
    shape = tuple(pixels.shape[1:])
    if shape != bundle.card.shape:
        mine, theirs = ("×".join(map(str, each)) for each in (shape, bundle.card.shape))
        raise UserError(f"images of {mine}, but {dataset} has images of {theirs}")
    names = together(metrics or measured_in_studies())
    reference = make_reference(
        bundle.features[SPLITS[split]], extractor, against, bundle.card.dataset_hash, len(pixels)
    )
    check_counts(names, len(pixels), len(reference.features), extractor.net.width)
    found = measure(extract(extractor, pixels), reference, names)
    return Measurements({name: each.estimate for name, each in found.items()}, reference.protocol)


def _pixels(images: Images | Tensor | Any) -> Tensor:
    import torch

    if isinstance(images, Images):
        return images.pixels
    return checked(torch.as_tensor(images), Path("images"))
