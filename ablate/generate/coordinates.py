"""Search coordinates: knobs that give r, chi and n in units in which a search is easy.

- `rho` = r / r_law(chi): the relative step in units of the law's, so that 1 is the prediction for
  every chi;
- `annealing` = 1 - chi, which spans decades and is searched on a log scale;
- `left` = |1 - r/L|^n: the share of the last level's noise that the n noise-free steps leave.

Each takes the place of its paper knob. Importing this module imports no torch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ablate.core.knobs import Knob
from ablate.diffusion.processes import CHI_STEPS, GBM, VEGBM, level
from ablate.samplers.registry import SAMPLERS

PAPER_LEVELS = 1000
"""The paper's N: levels of the literal run that an exponential integrator stands for."""

DIGITS = 12
"""Significant digits of r from rho, so that 0.586 does not come back as 0.5860000000000001."""

NOTHING_LEFT = 0.01
"""Share of the noise below which a step counts as removing all of it. At r = L one step removes
everything, and without such a bound no number of steps would be the nearest to any `left`."""


NEEDED = (
    Knob("r", "", 1e-9, 1e9, None),  # or "law"
    Knob("chi", "", 1e-9, 1, None),
    Knob("L", "", 1, 10**9, None, whole=True),
    Knob("N", "", 4, 100_000, None, whole=True),
    Knob("delta", "", 0, 1e9, None),
    Knob("levels", "", 3, 100_000, None, whole=True),
    Knob("sigma_min", "", 0, 1e9, None),
    Knob("sigma_max", "", 0, 1e9, None),
)
"""Knobs that coordinates are computed from, which must be sound before the settings check them."""


def kappa(chi: float, times: tuple[float, float]) -> float:
    """kappa = chi^(1000 (t_first - t)), from the time of the first level and that of another."""
    return float(chi ** (CHI_STEPS * (times[0] - times[1])))


@lru_cache(maxsize=4096)
def law_step(chi: float, N: int = PAPER_LEVELS, process: GBM | VEGBM = GBM(1.0)) -> float:  # noqa: B008
    """The law's r as one number: 1/(2 - kappa²), averaged over log s from s_{N-1} down to s_1.

    It does not depend on a constant sigma: 1 at chi = 1, 0.65 at 0.9995, 0.51 at 0.995.
    """
    times = [k / N for k in range(N - 1, 0, -1)]
    heights = [math.log(level(process, t)) for t in times]
    widths = [high - low for high, low in itertools.pairwise(heights)]
    steps = [1 / (2 - kappa(chi, (times[0], t)) ** 2) for t in times[:-1]]
    return sum(r * width for r, width in zip(steps, widths, strict=True)) / sum(widths)


def _law_step_of(chosen: Mapping[str, Any]) -> float:
    """The law's r for the chi, N and schedule of a configuration."""
    process: GBM | VEGBM = GBM(1.0)
    if chosen.get("schedule") == "ve":
        if missing := [k for k in ("sigma_min", "sigma_max") if chosen.get(k) is None]:
            raise ValueError(f"{missing[0]} is missing; schedule 've' needs it")
        process = VEGBM(chosen["sigma_min"], chosen["sigma_max"])
    return law_step(_or(chosen, "chi", 1.0), _or(chosen, "N", PAPER_LEVELS), process)


def kept_at_the_end(chosen: Mapping[str, Any]) -> float:
    """1 - r/L: the factor on the deviation from D of one noise-free step at the last level.

    Where the sampler's pull is not r itself (it is 1/2 for kappa-consistent samplers), its law says
    what it is.
    """
    sampler, L, N = SAMPLERS[str(chosen["sampler"])], _or(chosen, "L", 1), _or(chosen, "N", 0)
    r = _or(chosen, "r", 1.0)
    if chosen.get("delta") is not None:
        uniform = chosen.get("grid") == "uniform" and chosen.get("integrator") != "exponential"
        r = L * chosen["delta"] * (N or (chosen.get("levels", 50) if uniform else PAPER_LEVELS))
    if r == "law":
        N = N or PAPER_LEVELS
        r = 1 / (2 - kappa(_or(chosen, "chi", 1.0), (1 - 1 / N, 1 / N)) ** 2)
    return float(1 - (sampler.law(0.0, r).pull if sampler.law else r) / L)  # type: ignore[arg-type]


def _or(chosen: Mapping[str, Any], knob: str, default: Any) -> Any:
    return default if chosen.get(knob) is None else chosen[knob]


def _r_of(rho: float, chosen: Mapping[str, Any]) -> float:
    return float(f"{rho * _law_step_of(chosen):.{DIGITS}g}")


def _rho_of(r: float, chosen: Mapping[str, Any]) -> float:
    """The relative step r in units of the law's."""
    return r / _law_step_of(chosen)


def logged_rho(r: float, chosen: Mapping[str, Any]) -> float:
    """The same to nine digits: a step at the law's is 1."""
    return float(f"{_rho_of(r, chosen):.9g}")


def _chi_of(annealing: float, chosen: Mapping[str, Any]) -> float:
    return 1 - annealing


def _annealing_of(chi: float, chosen: Mapping[str, Any]) -> float:
    """1 - chi, as 0.005 and not 0.0050000000000000044 where that gives the same chi."""
    short = float(f"{1 - chi:.{DIGITS}g}")
    return short if 1 - short == chi else 1 - chi


def _n_of(left: float, chosen: Mapping[str, Any]) -> int:
    if left == 1:
        return 0
    kept = abs(kept_at_the_end(chosen))
    if kept >= 1:
        raise ValueError(f"left = {left}: noise-free steps of r/L = {1 + kept:.4g} remove no noise")
    return round(math.log(left) / math.log(max(kept, NOTHING_LEFT)))


def _left_of(n: int, chosen: Mapping[str, Any]) -> float:
    return float(max(abs(kept_at_the_end(chosen)), NOTHING_LEFT) ** n)


@dataclass(frozen=True)
class Coordinate:
    """A knob that gives the value of a paper knob.

    paper: the paper knob; others: knobs that it must not stand beside.
    to_paper: `(value, configuration) -> the paper knob's value`; of: the other way round.
    """

    knob: Knob
    paper: str
    others: tuple[str, ...]
    to_paper: Callable[[Any, Mapping[str, Any]], Any]
    of: Callable[[Any, Mapping[str, Any]], float]

    @property
    def name(self) -> str:
        return self.knob.name

    def applies(self, chosen: Mapping[str, Any]) -> bool:
        """Whether it is given, to a sampler that has its paper knob."""
        sampler = SAMPLERS.get(str(chosen.get("sampler")))
        has = sampler is not None and self.paper in sampler.knobs
        return has and chosen.get(self.name) is not None


COORDINATES = {
    each.name: each
    for each in (  # in this order: r takes chi, and n takes r
        Coordinate(
            Knob("annealing", "1 - chi", 0, 0.999, None), "chi", ("chi",), _chi_of, _annealing_of
        ),
        Coordinate(
            Knob("rho", "relative step in units of the law's: r / r_law(chi)", 1e-3, 1e3, None),
            "r",
            ("r", "delta"),
            _r_of,
            _rho_of,
        ),
        Coordinate(
            Knob("left", "noise left by the noise-free steps: |1 - r/L|^n", 1e-9, 1, None),
            "n",
            ("n",),
            _n_of,
            _left_of,
        ),
    )
}


def paper_knob(knob: str) -> str:
    """The paper knob that a coordinate gives; other knobs as they are."""
    return COORDINATES[knob].paper if knob in COORDINATES else knob


def in_paper_knobs(chosen: Mapping[str, Any]) -> Mapping[str, Any]:
    """The knobs with r, chi and n in place of coordinates; an error if both are given."""
    given = [each for each in COORDINATES.values() if each.applies(chosen)]
    for each in given:
        each.knob.check(chosen[each.name])
        for other in each.others:
            if chosen.get(other) is not None:
                raise ValueError(
                    f"{each.name} = {chosen[each.name]} and {other} = {chosen[other]}: give one;"
                    f" {each.name} decides {each.paper}"
                )
    plain = {k: v for k, v in chosen.items() if k not in {each.name for each in given}}
    if given:
        _check_needed(plain)
    for each in given:
        plain[each.paper] = each.to_paper(chosen[each.name], plain)
    return plain


def _check_needed(chosen: Mapping[str, Any]) -> None:
    for knob in NEEDED:
        value = chosen.get(knob.name)
        if value is not None and (knob.name, value) != ("r", "law"):
            knob.check(value)


def in_coordinates(
    row: Mapping[str, Any], fixed: Mapping[str, Any], searched: Collection[str]
) -> dict[str, Any]:
    """A row with searched coordinates in place of the paper knobs that it is written with.

    fixed: the other knobs of the row's configuration.
    """
    whole, converted = in_paper_knobs({**fixed, **row}), dict(row)
    if whole.get("sampler") not in SAMPLERS:
        return converted
    for name, each in COORDINATES.items():
        value = row.get(each.paper)
        if name in searched and each.paper not in searched and isinstance(value, int | float):
            _check_needed(whole)
            del converted[each.paper]
            converted[name] = each.of(value, whole)
    return converted
