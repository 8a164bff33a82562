"""A study's setup for other processes and machines: they need the package and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ablate.experiment.prepare import Also, Setup
from ablate.metrics.extractors.extractor import Extractor
from ablate.metrics.reference import Reference


@dataclass(frozen=True)
class Loaded:
    """A reference that is there already, in the place of a function that loads it."""

    reference: Reference

    def __call__(self) -> Reference:
        return self.reference


class Portable(NamedTuple):
    """A setup that can be pickled."""

    setup: Setup

    def on(self, device: str) -> Setup:
        """The setup for work on a device."""
        also = {
            name: each._replace(extractor=on_device(each.extractor, device))
            for name, each in self.setup.also.items()
        }
        extractor = on_device(self.setup.extractor, device)
        return self.setup._replace(device=device, extractor=extractor, also=also)


def portable(setup: Setup) -> Portable:
    """The setup without what only this machine has. The network that a study trains for a cell goes
    with the cell."""
    also = {
        name: Also(each.extractor, each.protocol, Loaded(_without_folder(each.reference())))
        for name, each in setup.also.items()
    }
    reference = _without_folder(setup.reference)
    setup = setup._replace(reference=reference, also=also, guides=dict(setup.guides))
    return Portable(setup._replace(training=None, files=()))


def _without_folder(reference: Reference) -> Reference:
    """The same with the statistics that were computed, and no folder to look for others."""
    return Reference(reference.features, reference.protocol, None, dict(reference._computed))


def on_device(extractor: Extractor, device: str) -> Extractor:
    """The Inception on another device; small classifiers stay on the CPU."""
    if extractor.device == device or extractor.resize == "none":
        return extractor
    return extractor._replace(net=extractor.net.to(device), device=device)
