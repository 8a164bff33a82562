"""A warning about the configurations of a study whose grids are too coarse for literal steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from ablate.core.coarseness import BAND, REMEDY, Coarseness
from ablate.generate.coarseness import coarseness
from ablate.generate.settings import Settings
from ablate.study.definition import Study
from ablate.study.domain import Scalar
from ablate.study.methods import METHODS

CHECKED = 1000
"""Configurations that are checked; one on 1,000 levels takes about 1 ms."""

SHOWN = ("grid", "levels", "N", "s_min", "sigma", "sigma_min", "sigma_max", "chi", "r", "L")
"""Knobs on which the noise depends, as a warning names them."""


def coarse_grids(study: Study) -> str | None:
    """One line about the configurations whose grids are too coarse; None if there are none.

    Of a grid, every configuration that is to be run is checked; of a search, those that come first
    and every combination of choices and ends of ranges.
    """
    found = [(coarseness(each), each) for each in _configurations(study)]
    literal = [(each, settings) for each, settings in found if each is not None]
    coarse = [(each, settings) for each, settings in literal if each.warns]
    if not coarse:
        return None
    worst, settings = max(coarse, key=lambda each: abs(math.log(each[0].ratio)))
    checked = "" if METHODS[study.method].finite else " that were checked"
    return (
        f"{len(coarse)} of {len(literal)} literal configurations{checked} have a grid too coarse"
        f" for their steps (noise variance outside {BAND[0]:g} to {BAND[1]:g} times their law's);"
        f" worst: {_named(worst, settings)}; {REMEDY}"
    )


def _configurations(study: Study) -> Iterator[Settings]:
    finite = METHODS[study.method].finite
    chosen: Iterator[Mapping[str, Scalar]] = itertools.chain(
        study.first, study.grid() if finite else study.corners()
    )
    for params in itertools.islice(chosen, min(study.trials, CHECKED) if finite else CHECKED):
        try:
            yield study.settings(params)
        except ValidationError:  # its trial fails with the reason
            continue


def _named(worst: Coarseness, settings: Settings) -> str:
    """1.93 at s = 0.057, outside at 8 of 10 levels, adls, levels = 12, …"""
    knobs = settings.knobs()
    named = [f"{knob} = {knobs[knob]}" for knob in SHOWN if knob in knobs]
    where = f"{worst.ratio:.3g} at s = {worst.s:.2g}, outside at {worst.outside} of {worst.levels}"
    return f"{where} levels, {', '.join([settings.sampler, *named])}"
