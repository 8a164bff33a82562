"""The names of all knobs, shared and owned; importing this module imports no torch."""

from __future__ import annotations

from ablate.diffusion.inits import INITS
from ablate.generate.coordinates import COORDINATES
from ablate.generate.guidance_knobs import GuidanceKnobs
from ablate.generate.settings import Settings
from ablate.samplers.registry import SAMPLERS


def known_knobs() -> tuple[str, ...]:
    """Every knob that a study may set: the shared ones, the search coordinates that give some of
    them, and those that single samplers or initialisations own."""
    own = [knob.name for sampler in SAMPLERS.values() for knob in sampler.own]
    own = [*COORDINATES, *own, *start_knob_names()]
    fields = [name for name in Settings.model_fields if name != "training"]
    shared = sorted(fields, key=lambda name: name in GuidanceKnobs.model_fields)
    return (*shared, *dict.fromkeys(own))


def start_knob_names() -> tuple[str, ...]:
    """The knobs that single initialisations own."""
    return tuple(dict.fromkeys(knob.name for init in INITS.values() for knob in init.own))
