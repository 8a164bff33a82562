"""Real images to compare samples with, and the measurement of metrics by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from ablate.core.registry import resolved
from ablate.data.tensor_cache import Tensors, cached_tensors
from ablate.metrics.estimate import Measured
from ablate.metrics.extractors.extractor import Extractor
from ablate.metrics.protocol import Protocol
from ablate.metrics.registry import METRICS, measured_in_studies, together


@dataclass(frozen=True)
class Reference:
    """Features of real images, [M, f], and the statistics that metrics compute from them once.

    folder: where the features are cached, or None. Statistics are cached there too, for other
        processes.
    """

    features: Tensor
    protocol: Protocol
    folder: Path | None = None
    _computed: dict[str, Tensors] = field(default_factory=dict, repr=False, compare=False)

    def once(self, name: str, compute: Callable[[], Tensors]) -> Tensors:
        """The result of `compute`, which is called only the first time for a name."""
        if name not in self._computed:
            file = None if self.folder is None else self.folder / f"{name}.safetensors"
            self._computed[name] = cached_tensors(file, compute) if file else compute()
        return self._computed[name]


def make_reference(
    features: Tensor,
    extractor: Extractor,
    name: str,
    content_hash: str,
    samples: int,
    seeds: int = 1,
    streams: int = 0,
    folder: Path | None = None,
) -> Reference:
    """Make the reference called `name`, such as cifar10/test, with its protocol.

    features: those of the reference images by this extractor; content_hash: the hash of the images;
    samples: the number of samples that are compared with it, per seed; streams: the version of the
    random numbers that draw them, 0 if they are not drawn here.
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
        streams=streams,
    )
    return Reference(features, protocol, folder)


def measure(
    samples: Tensor, reference: Reference, which: Iterable[str] | None = None
) -> dict[str, Measured]:
    """Measure metrics of samples' features, [N, f]; by default those that every cell has.

    Metrics that share a function come together: asking for one returns all of them.
    """
    measured: dict[str, Measured] = {}
    names = together(measured_in_studies() if which is None else which)
    for call in dict.fromkeys(METRICS[name].measure for name in names):
        assert call is not None
        measured |= resolved(call)(samples, reference)
    return measured
