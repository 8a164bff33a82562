"""Orders of exponential integrators against the literal law, in closed form.

On a log-normal, D is linear in y, so the end of a run is a linear function of its start and of each
z of the literal run. So both the law at the end and the distance of an exponential run from the
literal one on the same path are known exactly, without drawing anything.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from ablate.diffusion.grids import within_literal
from ablate.diffusion.processes import GBM
from ablate.samplers.exponential import FineSteps, fine_steps, long_steps, nearest_fine
from ablate.samplers.registry import SAMPLERS

PROCESS, N, V = GBM(0.8), 100_000, 0.1**2
"""So many levels that the literal run is the limit, and the variance of the data."""

STEPS = (32, 64)
H = math.log(0.8 / (0.8 / math.sqrt(N))) / STEPS[0]
TOLERANCE = 2 * H / (2 * math.log(2))
"""error = c h^p (1 + c' h + …) with |c'| at most 2: from h to h/2 the slope is p within this."""

LAWS = [("adls", 1.0, 1.0), ("adls", 0.9995, 0.65), ("adls-consistent", 0.9995, 1.0)]


class End(NamedTuple):
    """y at the end: weight of the start, [], and of every z of the literal run, [N - 1]."""

    start: float
    noise: np.ndarray

    @property
    def variance(self) -> float:
        return self.start**2 * (V + 0.8**2) + float((self.noise**2).sum())

    def distance(self, other: End) -> float:
        """Root mean square difference on the same path."""
        return math.sqrt(End(self.start - other.start, self.noise - other.noise).variance)


def after(keep: np.ndarray) -> np.ndarray:
    """The product of all later factors, for each."""
    return np.concatenate([np.cumprod(keep[::-1])[::-1][1:], [1.0]])


def literal_end(fine: FineSteps) -> End:
    gain = V / (V + np.array(fine.s) ** 2)
    factor = gain + np.array(fine.keep) * (1 - gain)
    return End(float(np.prod(factor)), after(factor) * np.array(fine.noise))


def exponential_end(fine: FineSteps, steps: int, order: int) -> End:
    """By the transfer matrices of (y, D before), from the last step back to the first."""
    places = nearest_fine(within_literal(PROCESS, "geometric", N, steps), PROCESS, N)
    weight, noise = np.array([1.0, 0.0]), np.empty(len(fine.s))
    levels, ends = long_steps(PROCESS, fine, places, order), [*places[1:], len(fine.s)]
    for i in reversed(range(steps)):
        part = slice(places[i], ends[i])
        noise[part] = weight[0] * after(np.array(fine.keep[part])) * np.array(fine.noise[part])
        step, gain = levels[i].linear, V / (V + levels[i].s ** 2)
        assert step is not None
        here = gain + step.keep * (1 - gain) + step.slope * gain
        weight = weight @ np.array([[here, -step.slope], [gain, 0.0]])
    return End(float(weight[0]), noise)


def ends(name: str, chi: float, r: float, order: int) -> tuple[End, list[End]]:
    law = SAMPLERS[name].law
    assert law is not None
    fine = fine_steps(PROCESS, N, law, chi=chi, r=r)
    return literal_end(fine), [exponential_end(fine, steps, order) for steps in STEPS]


def slope(errors: list[float]) -> float:
    (only,) = (math.log2(abs(a / b)) for a, b in pairwise(errors))
    return only


@pytest.mark.parametrize(("name", "chi", "r"), LAWS)
@pytest.mark.parametrize("order", [1, 2])
def test_weak_order(name: str, chi: float, r: float, order: int) -> None:
    exact, found = ends(name, chi, r, order)
    errors = [end.variance / exact.variance - 1 for end in found]
    assert slope(errors) == pytest.approx(order, abs=TOLERANCE)


@pytest.mark.parametrize(("name", "chi", "r"), LAWS)
@pytest.mark.parametrize("order", [1, 2])
def test_strong_order_is_one_where_there_is_noise(
    name: str, chi: float, r: float, order: int
) -> None:
    """Over a step the path adds ∫ W ds to D, of which the sum Σ w z knows only a part: an
    independent h^(3/2) a step, h in all. The second order halves it."""
    exact, found = ends(name, chi, r, order)
    errors = [end.distance(exact) for end in found]
    assert slope(errors) == pytest.approx(1, abs=TOLERANCE)
    if order == 2:
        first = ends(name, chi, r, 1)[1]
        assert all(e < 0.6 * end.distance(exact) for e, end in zip(errors, first, strict=True))


@pytest.mark.parametrize("order", [1, 2])
def test_strong_order_where_annealing_has_removed_the_noise(order: int) -> None:
    exact, found = ends("adls", 0.995, 0.55, order)
    errors = [end.distance(exact) for end in found]
    assert slope(errors) == pytest.approx(order, abs=TOLERANCE)
