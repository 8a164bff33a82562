"""Real images to measure samples against, and the measuring of any metrics by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from ablate.core.registry import resolved
from ablate.metrics.estimate import Measured
from ablate.metrics.extractors.extractor import Extractor
from ablate.metrics.feature_cache import Tensors, kept
from ablate.metrics.protocol import Protocol
from ablate.metrics.registry import METRICS, measured_in_studies, together


@dataclass(frozen=True)
class Reference:
    """Features of real images, [M, f], and what metrics compute of them once.

    folder: where the features are cached, if they are. Statistics are then kept beside them, for
        every process that comes after.
    """

    features: Tensor
    protocol: Protocol
    folder: Path | None = None
    _computed: dict[str, Tensors] = field(default_factory=dict, repr=False, compare=False)

    def once(self, name: str, compute: Callable[[], Tensors]) -> Tensors:
        """What `compute` gives, computed at the first call with this name."""
        if name not in self._computed:
            file = None if self.folder is None else self.folder / f"{name}.safetensors"
            self._computed[name] = compute() if file is None else kept(file, compute)
        return self._computed[name]


def make_reference(
    features: Tensor,
    extractor: Extractor,
    name: str,
    content_hash: str,
    samples: int,
    seeds: int = 1,
    folder: Path | None = None,
) -> Reference:
    """The reference called `name`, such as cifar10/test, for sets of so many samples.

    features: of the reference images, by this extractor; content_hash: of the images.
    """
    protocol = Protocol(
        extractor=extractor.name,
        extractor_hash=extractor.hash,
        resize=extractor.resize,
        quantised=True,
        reference=name,
        reference_hash=content_hash,
        reference_count=len(features),
        samples=samples,
        seeds=seeds,
    )
    return Reference(features, protocol, folder)


def measure(
    samples: Tensor, reference: Reference, which: Iterable[str] | None = None
) -> dict[str, Measured]:
    """Features of samples, [N, f] -> metrics by name; by default those that every cell has.

    Metrics that are measured in one call come together: asking for one gives all of them.
    """
    found: dict[str, Measured] = {}
    names = together(measured_in_studies() if which is None else which)
    for call in dict.fromkeys(METRICS[name].measure for name in names):
        assert call is not None
        found |= resolved(call)(samples, reference)
    return found
