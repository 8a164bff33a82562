"""Exponential integrators against the literal runs that they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ablate.diffusion.grids import Step, plan, uniform, within_literal
from ablate.diffusion.processes import GBM, VEGBM, Process
from ablate.generate.afford import spend
from ablate.samplers.drive import drive
from ablate.samplers.exponential import (
    FineSteps,
    exponential,
    fine_steps,
    first_steps,
    folded,
    long_steps,
    nearest_fine,
)
from ablate.samplers.kernel import Denoiser
from ablate.samplers.registry import SAMPLERS
from ablate.samplers.shared_path import SharedPath
from tests.support.beds import normal, two_modes

CONSTANT, GROWING = GBM(0.8), VEGBM(0.1, 1.2)
LAWS = [name for name, sampler in SAMPLERS.items() if sampler.law]
SHAPE = (50, 1)

every_law = pytest.mark.parametrize("name", LAWS)
both_processes = pytest.mark.parametrize("process", [CONSTANT, GROWING], ids=["gbm", "vegbm"])


def fine(
    name: str, process: Process, N: int, chi: float, r: Step, L: int = 1, n: int = 0
) -> FineSteps:
    law = SAMPLERS[name].law
    assert law is not None
    return fine_steps(process, N, law, chi=chi, r=r, L=L, n=n)


def path() -> Callable[[int], Tensor]:
    z = normal((2000, *SHAPE), 3)
    return lambda j: z[j]


def literal(
    name: str,
    process: Process,
    N: int,
    denoiser: Denoiser,
    chi: float,
    r: Step,
    L: int = 1,
    n: int = 0,
) -> Tensor:
    """y at the end of a literal run."""
    steps = plan(process, uniform(process, N), chi=chi, r=r, L=L, n=n)
    start = 0.3 + 0.8 * normal(SHAPE, 4)
    return drive(SAMPLERS[name].step, denoiser, start, steps, path()).x.abs().log()


def standing_for(
    steps: FineSteps, firsts: list[int], process: Process, denoiser: Denoiser, order: int = 2
) -> Tensor:
    """y at the end of an exponential run on the literal run's path."""
    start = 0.3 + 0.8 * normal(SHAPE, 4)
    shared = SharedPath(steps, firsts, path())
    levels = long_steps(process, steps, firsts, order)
    return drive(exponential, denoiser, start, levels, shared).x.log()


def still(y: Tensor, s: float) -> Tensor:
    """A denoiser that always answers the same."""
    return 0 * y + 0.25


# --- exact where it should be ---


@both_processes
@pytest.mark.parametrize("name", ["adls", "adls-consistent"])
@pytest.mark.parametrize(("chi", "r"), [(1.0, 1.0), (0.995, 0.6), (0.9995, "law")])
@pytest.mark.parametrize(("L", "n"), [(1, 0), (3, 4)])
@pytest.mark.parametrize("order", [1, 2])
def test_as_many_long_steps_as_short_ones_are_the_literal_run(
    name: str, process: Process, chi: float, r: Step, L: int, n: int, order: int
) -> None:
    """To rounding, with a denoiser of two modes: some 40 operations of 1e-16 a step, 64 steps."""
    r = 1.0 if name == "adls-consistent" else r
    oracle, steps = two_modes(), fine(name, process, 21, chi, r, L, n)
    ours = standing_for(steps, list(range(20 * L + n)), process, oracle.denoised, order)
    exact = literal(name, process, 21, oracle.denoised, chi, r, L, n)
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-12)


@both_processes
@pytest.mark.parametrize("name", ["adls", "adls-consistent"])
@pytest.mark.parametrize("places", [[0, 57], [0, 7, 30, 57]])
@pytest.mark.parametrize(("L", "n", "rest"), [(1, 0, 0), (3, 0, 0), (2, 5, 1), (6, 25, 4)])
def test_a_denoiser_at_rest_makes_any_number_of_steps_exact(
    name: str, process: Process, places: list[int], L: int, n: int, rest: int
) -> None:
    r = 1.0 if name == "adls-consistent" else 0.7
    steps = fine(name, process, 60, 0.99, r, L, n)
    split = 1 if L > 1 else 0
    firsts = first_steps(steps, places if split else [*places, 58], split, rest)
    ours = standing_for(steps, firsts, process, still)
    exact = literal(name, process, 60, still, 0.99, r, L, n)
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-12)


def test_second_order_follows_a_denoiser_within_a_level() -> None:
    """At the last level D is asked at the same s again and again. If it moves by the same step from
    one evaluation to the next, as here by the count of literal steps, it is exact from the second
    long step there on."""
    steps = fine("adls", CONSTANT, 5, 1.0, 0.7, L=2, n=9)
    firsts = [*range(8), 8, 9, 13]  # every walked step, then 1, 4 and 4 noise-free ones
    asked = iter(firsts)

    def drifting(at: Callable[[], int]) -> Denoiser:
        return lambda y, s: 0 * y + 0.2 + 0.01 * at()

    ours = standing_for(steps, firsts, CONSTANT, drifting(lambda: next(asked)))
    count = iter(range(17))
    exact = literal("adls", CONSTANT, 5, drifting(lambda: next(count)), 1.0, 0.7, L=2, n=9)
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-12)


@given(st.integers(3, 60), st.integers(1, 8), st.integers(0, 40))
def test_every_evaluation_is_spent_once(evaluations: int, L: int, n: int) -> None:
    """Long steps begin at different short ones, in order, as many as there are evaluations."""
    walk, split, rest = spend(evaluations, L, n)
    assert walk + 2 * split + rest == evaluations
    assert walk >= 2
    steps = fine("adls", CONSTANT, 100, 0.999, 0.6, L, n)
    spaced = within_literal(CONSTANT, "geometric", 100, walk, last=split + 1)
    places = nearest_fine(spaced, CONSTANT, 100, last=split + 1)
    assert places[-1] == 100 - 1 - (split + 1)
    firsts = first_steps(steps, places, split, rest)
    assert len(firsts) == evaluations
    assert all(a < b for a, b in pairwise([*firsts, len(steps.s)]))


def test_second_order_is_exact_for_a_denoiser_linear_in_log_s() -> None:
    """From the second long step on: the first is one level long, over which nothing changes."""

    def linear(y: Tensor, s: float) -> Tensor:
        return 0 * y + 0.2 - 0.1 * math.log(s)

    steps = fine("adls", CONSTANT, 60, 0.99, 0.7)
    exact = literal("adls", CONSTANT, 60, linear, 0.99, 0.7)
    places = [0, 1, 20, 45, 58]
    ours, first = (standing_for(steps, places, CONSTANT, linear, order=order) for order in (2, 1))
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-12)
    assert float((first - exact).abs().max()) > 0.01


@pytest.mark.parametrize("name", ["asams", "asams-consistent"])
def test_asams_agrees_to_first_order_in_its_steps(name: str) -> None:
    """A literal step multiplies by 1 + u, and log(1 + u) = u - u²/2 + …. With the mean of u² in
    place of u² a step errs by a fluctuation of the order dv = 1/N. With D at rest the last levels
    forget the others, so this is the error in all: with four times the levels a quarter. A median
    of 2,000 is known to 4 %, so the ratio of two to 6 %, and four standard errors are 24 %."""
    start, z = 0.3 + 0.8 * normal((2000, 1), 4), normal((2000, 2000, 1), 3)

    def apart(N: int) -> float:
        steps, places = fine(name, CONSTANT, N, 0.9995, 1.0), list(range(N - 1))
        levels = plan(CONSTANT, uniform(CONSTANT, N), chi=0.9995)
        exact = drive(SAMPLERS[name].step, still, start, levels, lambda j: z[j]).x.abs().log()
        shared = SharedPath(steps, places, lambda j: z[j])
        ours = drive(exponential, still, start, long_steps(CONSTANT, steps, places), shared).x.log()
        return float((ours - exact).abs().median())

    assert apart(500) / apart(2000) == pytest.approx(4, rel=0.24)


def test_bias_of_asams_is_the_whole_difference_to_adls() -> None:
    adls, asams = (fine(name, CONSTANT, 1000, 0.995, 0.6) for name in ("adls", "asams"))
    assert adls.keep == asams.keep
    assert adls.noise == asams.noise
    assert set(adls.bias) == {0.0}
    dv, kappa = 0.64 / 1000, torch.tensor(asams.kappa, dtype=torch.float64)
    expected = 0.6 * (1 - kappa**2) / 2 * dv
    torch.testing.assert_close(kappa.new_tensor(asams.bias), expected, rtol=1e-9, atol=0)


# --- folding ---


@every_law
def test_folding_is_associative(name: str) -> None:
    steps = fine(name, CONSTANT, 200, 0.995, 0.6, L=2)
    whole, a, b = (folded(steps, *ends) for ends in ((3, 150), (3, 40), (40, 150)))
    assert whole.keep == pytest.approx(a.keep * b.keep, rel=1e-12)
    assert whole.bias == pytest.approx(a.bias * b.keep + b.bias, rel=1e-12)
    assert whole.noise == pytest.approx(math.hypot(a.noise * b.keep, b.noise), rel=1e-12)
    between = math.log(steps.s[3] / steps.s[40])
    assert whole.slope == pytest.approx(
        a.slope * b.keep + b.slope + (1 - b.keep) * between, rel=1e-12
    )


@pytest.mark.parametrize(("name", "pull"), [("adls", 0.7), ("adls-consistent", 1.0)])
def test_limit_of_many_levels_in_closed_form(name: str, pull: float) -> None:
    """At chi = 1, from v0 to v1: keep q = (v1/v0)^a, slope h - (1 - q)/(2a) with h = log(s0/s1),
    and noise b² v1^(2a) ∫ v^(-2a) dv. Sums over levels k = 25,600 to 6,400 differ from integrals
    by 1/k at most, relatively."""
    steps = fine(name, CONSTANT, 40_000, 1.0, 0.7)
    first, last = 40_000 - 1 - 25_600, 40_000 - 1 - 6_400
    step, h = folded(steps, first, last), math.log(2)
    v0, v1 = (steps.s[place] ** 2 for place in (first, last))
    q, b2 = (v1 / v0) ** pull, pull
    power = 1 - 2 * pull
    variance = b2 * v1 ** (2 * pull) * (v0**power - v1**power) / power
    assert step.keep == pytest.approx(q, rel=1 / 6_400)
    assert step.slope == pytest.approx(h - (1 - q) / (2 * pull), rel=4 / 6_400)
    assert step.noise == pytest.approx(math.sqrt(variance), rel=1 / 6_400)


@given(st.integers(4, 400), st.data())
def test_places_rise_from_the_first_level_to_the_last(N: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(2, N - 1))
    kind = data.draw(st.sampled_from(["geometric", "karras", "uniform"]))
    process: Process = CONSTANT if data.draw(st.booleans()) else GROWING
    places = nearest_fine(within_literal(process, kind, N, count), process, N)
    assert len(places) == count
    assert (places[0], places[-1]) == (0, N - 2)
    assert all(a < b for a, b in pairwise(places))


def test_signs_are_kept() -> None:
    steps = fine("asams", CONSTANT, 1000, 1.0, 1.0)
    places = nearest_fine(within_literal(CONSTANT, "geometric", 1000, 8), CONSTANT, 1000)
    levels = long_steps(CONSTANT, steps, places)
    start, z = 5 * normal((2000, 3), 1), normal((2000, 3), 2)
    drawn = drive(exponential, two_modes().denoised, start[:, :1], levels, lambda j: 5 * z[:, :1])
    assert drawn.reason is None
    assert int(drawn.flipped.sum()) == 0
    assert bool((drawn.x > 0).all())
