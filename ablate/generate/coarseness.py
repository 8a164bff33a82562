"""Whether a literal run's grid is too coarse for its sampler."""

from __future__ import annotations

import math
from functools import lru_cache

from ablate.core.coarseness import BAND, Coarseness
from ablate.generate.plans import noise_levels
from ablate.generate.settings import Settings
from ablate.samplers.laws import Law
from ablate.samplers.noise_ratio import noise_ratios
from ablate.samplers.registry import SAMPLERS, Sampler

NEGLIGIBLE = 5.5e-3
"""Share of the start's variance below which a level does not count.

Near 0 a uniform grid is coarse for every N: from level k to k - 1 it removes 1/k of the variance,
and from k = 5 down the stationary ratio of ADLS with r = 1, k/(k - 1), is 1.25 or more. The paper's
run on 1,000 levels is what others are compared with, so its last five levels, of 5/1000 of the
variance and less, do not count on any grid. From 550 uniform levels on no setting of the paper
warns; on 50 all do, because there the last five levels have a tenth of the variance.
"""

FITTED = frozenset({"gits"})
"""Grids that are fitted to a network, for the probability flow."""


def coarseness(settings: Settings) -> Coarseness | None:
    """How far the noise of a run is from that of its law.

    None for exponential integrators, which have the law's own noise, for deterministic samplers,
    which have none, for samplers that discretise no known law, and for grids whose levels are not
    known before they are fitted to a network.
    """
    if settings.exponential or settings.grid in FITTED or law_of(settings.kind) is None:
        return None
    return _worst(settings.model_copy(update={"init": "", "n": None}))  # neither matters here


def law_of(sampler: Sampler) -> Law | None:
    """The law of a stochastic sampler: its own, or that of another sampler with the same step."""
    if not sampler.stochastic:
        return None
    laws = [each.law for each in SAMPLERS.values() if each.step is sampler.step and each.law]
    return sampler.law or next(iter(laws), None)


@lru_cache(maxsize=1024)  # many configurations of a study differ only in the start or in n
def _worst(settings: Settings) -> Coarseness:
    """The worst ratio of the steps that count, each from a level s to s_next."""
    law, chi, L = law_of(settings.kind), settings.chi or 1.0, settings.L or 1
    assert law is not None
    grid = noise_levels(settings)
    ratios = noise_ratios(settings.process, grid, law, chi=chi, r=settings.relative_step, L=L)
    levels: list[float] = grid.tolist()
    least = NEGLIGIBLE * settings.process.variance(1.0)
    arrivals = zip(levels[:-2], levels[1:-1], ratios, strict=True)
    counted = [(ratio, s_next) for s, s_next, ratio in arrivals if s**2 > least]
    ratio, s = max(counted, key=lambda each: abs(math.log(each[0])))
    low, high = BAND
    outside = sum(not low <= each <= high for each, _ in counted)
    return Coarseness(ratio, s, outside, len(counted))
