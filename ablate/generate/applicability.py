"""Which knobs have a meaning beside which others; importing this module imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ablate.core.knobs import Knob
from ablate.diffusion.inits import INITS
from ablate.generate.coordinates import paper_knob
from ablate.generate.guidance_knobs import GUIDE_KNOBS, is_guided
from ablate.samplers.registry import ANNEALED, SAMPLERS

SCHEDULE_KNOBS = {"constant": {"sigma"}, "ve": {"sigma_min", "sigma_max"}}
GRIDS_WITH_FLOOR = {"geometric", "karras", "uniform-t", "gits"}
GRID_KNOBS = {"grid", "levels", "cost", "s_min", "cap"}

NO_LABEL = "none"
"""The value of the knob `label` that samples a network without classes."""

DECIDING = ("sampler", "integrator", "N", "schedule", "grid", "guidance")
"""Knobs that decide whether others apply; each may depend on those before it."""


def listens(knob: str, chosen: Mapping[str, Any]) -> bool:
    """Whether `knob` has a meaning given the other knobs chosen so far."""
    knob = paper_knob(knob)  # a coordinate has one exactly when its paper knob has
    sampler = str(chosen.get("sampler"))
    if sampler in SAMPLERS and knob in ANNEALED and knob not in SAMPLERS[sampler].knobs:
        return False
    if knob in GUIDE_KNOBS:
        return is_guided(chosen)
    if any(knob == own.name for own in _all_own()):
        return chosen.get(knob) == NO_LABEL or _owned(knob, sampler, str(chosen.get("init")))
    if any(knob in knobs for knobs in SCHEDULE_KNOBS.values()):
        return knob in SCHEDULE_KNOBS.get(chosen.get("schedule", "constant"), {knob})
    if knob == "integrator":
        return sampler not in SAMPLERS or SAMPLERS[sampler].law is not None
    return _fits_integrator(knob, chosen)


def _fits_integrator(knob: str, chosen: Mapping[str, Any]) -> bool:
    """Whether a knob of the levels has a meaning: `N` is the paper's grid, walked or stood for."""
    grid, sampler = chosen.get("grid", "geometric"), SAMPLERS.get(str(chosen.get("sampler")))
    integrator = None if sampler and not sampler.law else chosen.get("integrator")
    if integrator == "literal" and "N" in chosen and knob in GRID_KNOBS:
        return False
    if knob == "N":
        return integrator is not None
    if knob == "order":
        return bool(integrator == "exponential")
    if knob == "s_min":
        return grid in GRIDS_WITH_FLOOR and integrator != "exponential"
    if knob == "cap":
        return bool(grid == "geometric") and integrator != "exponential"
    return True


def _owned(knob: str, sampler: str, init: str) -> bool:
    """Whether the sampler or the initialisation has a knob of its own by this name; if one of them
    is not chosen yet, whether any has."""
    samplers = [SAMPLERS[sampler]] if sampler in SAMPLERS else SAMPLERS.values()
    inits = [INITS[init]] if init in INITS else INITS.values()
    return any(knob == own.name for each in (*samplers, *inits) for own in each.own)


def _all_own() -> Iterator[Knob]:
    """The knobs that single samplers and initialisations have."""
    for sampler in SAMPLERS.values():
        yield from sampler.own
    for init in INITS.values():
        yield from init.own
