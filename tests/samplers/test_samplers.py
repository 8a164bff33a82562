"""Every sampler against the contract, and each kernel against its formula written out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np
import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import Level, geometric, plan, uniform
from ablate.diffusion.processes import GBM
from ablate.samplers.adls import adls, adls_consistent, dale_step
from ablate.samplers.asams import asams, asams_as_printed, asams_consistent
from ablate.samplers.drive import NO_LIMITS, Drawn, Limits, drive
from ablate.samplers.kernel import Denoiser, Kernel, State
from ablate.samplers.ode import euler
from ablate.samplers.registry import ANNEALED, SAMPLERS
from tests.support.beds import generator, normal, three_dimensions

PROCESS, ORACLE = GBM(0.8), three_dimensions()
SIGN_PRESERVING = [name for name in SAMPLERS if "asams" not in name and name != "sign-agnostic"]
every_sampler = pytest.mark.parametrize("name", SAMPLERS)
STEP = Level(s=0.5, s_next=0.45, shift=0.0, shift_next=0.0, drift=0.02, variance=0.0475, kappa=0.7)


def elementwise(y: Tensor, s: float) -> Tensor:
    """The denoiser of independent N(0.3, 0.05) pixels: any shape, any type."""
    return 0.3 + 0.05 / (0.05 + s**2) * (y - 0.3)


def state(count: int = 6, seed: int = 1) -> State:
    """Both signs, in three dimensions."""
    y = 0.3 + 0.5 * normal((count, 3), seed)
    return State(y, torch.where(normal((count, 3), seed + 1) < 0, -1.0, 1.0).double())


def run(
    name: str,
    levels: list[Level],
    shape: tuple[int, ...] = (5, 3),
    denoiser: Denoiser = elementwise,
    limits: Limits = NO_LIMITS,
    frames: Collection[int] = (),
) -> Drawn:
    """A sampler down a plan from a seeded start with seeded noise."""
    noise = generator(3)
    start = 0.3 + 0.8 * normal(shape, 4)
    return drive(
        SAMPLERS[name].step,
        denoiser,
        start,
        levels,
        lambda j: torch.randn(shape, generator=noise, dtype=torch.float64),
        limits,
        frames,
    )


# --- the contract, over the registry ---


@every_sampler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5, 5)])
def test_kernel_keeps_shape_and_type_and_its_arguments(
    name: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    y, z = (normal(shape, seed).to(dtype) for seed in (1, 2))
    given = State.of_log(y)
    before = [part.clone() for part in (given.y, given.sign, z)]
    after, info = SAMPLERS[name].step(elementwise, given, STEP, z)
    for part in (after.y, after.sign):
        assert part.shape == shape
        assert part.dtype == dtype
        assert bool(part.isfinite().all())
    assert all(
        torch.equal(was, is_) for was, is_ in zip(before, (given.y, given.sign, z), strict=True)
    )
    assert info.crossed is None or info.crossed.shape == shape


@every_sampler
def test_kernel_is_a_function_of_its_arguments(name: str) -> None:
    kernel, sampler = SAMPLERS[name].step, SAMPLERS[name]
    z, other = normal((6, 3), 4), normal((6, 3), 5)
    first, again, different = (kernel(ORACLE.denoised, state(), STEP, w)[0] for w in (z, z, other))
    assert torch.equal(first.y, again.y)
    assert torch.equal(first.sign, again.sign)
    assert torch.equal(first.y, different.y) is not sampler.stochastic


@every_sampler
@pytest.mark.parametrize(("L", "n"), [(1, 0), (3, 0), (1, 4), (2, 5)])
def test_driver_counts_the_planned_evaluations(name: str, L: int, n: int) -> None:
    sampler = SAMPLERS[name]
    if sampler.knobs != ANNEALED:
        L, n = 1, 0
    N, levels = 7, plan(PROCESS, geometric(PROCESS, 7, 0.05), L=L, n=n)
    calls: list[float] = []

    def counting(y: Tensor, s: float) -> Tensor:
        calls.append(s)
        return elementwise(y, s)

    drawn = run(name, levels, denoiser=counting)
    assert drawn.evaluations == len(calls) == sampler.nfe(N, L, n)
    assert drawn.reason is None
    assert drawn.x.shape == (5, 3)
    assert bool(drawn.x.isfinite().all())
    assert min(calls) == pytest.approx(0.05)  # a denoiser is never asked at s = 0
    if n:
        assert calls[-n:] == [levels[-1].s] * n


@every_sampler
def test_frames_are_the_states_before_their_steps(name: str) -> None:
    levels = plan(PROCESS, geometric(PROCESS, 7, 0.05))
    drawn = run(name, levels, frames={0, 2, 5})
    start = 0.3 + 0.8 * normal((5, 3), 4)
    assert len(drawn.frames) == 3
    torch.testing.assert_close(drawn.frames[0], start.exp(), rtol=0, atol=0)
    torch.testing.assert_close(drawn.frames[1], run(name, levels[:2]).x, rtol=0, atol=0)
    torch.testing.assert_close(drawn.frames[2], run(name, levels[:5]).x, rtol=0, atol=0)
    assert run(name, levels).frames == []


def test_nfe_of_the_paper() -> None:
    assert SAMPLERS["adls"].nfe(1000) == 999
    assert SAMPLERS["adls"].nfe(1000, L=6, n=25) == 6 * 999 + 25
    assert SAMPLERS["pf-heun"].nfe(19) == 35


# --- the formulas ---


@pytest.mark.parametrize("drift", [0.5 * STEP.variance, 0.02, -0.1])
def test_adls_by_hand(drift: float) -> None:
    step, start, z = STEP._replace(drift=drift), state(), normal((6, 3), 6)
    hyvarinen = ORACLE.hyvarinen(start.x.abs(), step.s)
    v = step.variance
    expected = start.x * torch.exp(
        -(drift - 1.5 * v) + v * hyvarinen + step.kappa * math.sqrt(v) * z
    )
    torch.testing.assert_close(adls(ORACLE.denoised, start, step, z)[0].x, expected)


@pytest.mark.parametrize("drift", [0.5 * STEP.variance, 0.02, -0.1])
@pytest.mark.parametrize(("kernel", "sign"), [(asams, 1), (asams_as_printed, -1)])
def test_asams_by_hand(kernel: Kernel, sign: int, drift: float) -> None:
    step, start, z = STEP._replace(drift=drift, variance=0.3, kappa=3.0), state(), normal((6, 3), 7)
    hyvarinen = ORACLE.hyvarinen(start.x.abs(), step.s)
    v = step.variance
    factor = 1 + 2 * v - drift + sign * v * hyvarinen + step.kappa * math.sqrt(v) * z
    after, info = kernel(ORACLE.denoised, start, step, z)
    torch.testing.assert_close(after.x, start.x * factor)
    assert info.crossed is not None
    assert torch.equal(info.crossed, factor < 0)
    assert 0 < int(info.crossed.sum()) < factor.numel()  # so that both branches were seen


def test_score_is_taken_off_the_shift() -> None:
    """With m(t) ≠ 0 the network, which knows no m, is asked at y - m."""
    moved, start, z = STEP._replace(shift=0.4, shift_next=0.3), state(), normal((6, 3), 8)
    for sampler in SAMPLERS.values():
        shifted = start._replace(y=start.y + 0.4)
        with_m = sampler.step(ORACLE.denoised, shifted, moved, z)[0].y
        without = sampler.step(ORACLE.denoised, start, STEP, z)[0].y
        # an SDE kernel moves by drift, which is the same; the ODE goes from m to m_next
        gain = 0.4 if sampler.stochastic else 0.3
        torch.testing.assert_close(with_m, without + gain, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("mu", [None, 0.5])
@pytest.mark.parametrize("pair", [("dale-langevin", "adls"), ("sign-agnostic", "asams")])
def test_plain_pair_is_the_boxed_equation(pair: tuple[str, str], mu: float | None) -> None:
    """delta = 1/N, levels N-1…1: Euler-Maruyama in x, and the annealed one at chi = L = r = 1."""
    plain, annealed = pair
    N, process = 20, GBM(0.8, mu)
    by_default = run(plain, plan(process, uniform(process, N)), denoiser=ORACLE.denoised)
    levels = plan(process, uniform(process, N), chi=1.0, L=1, n=0, r=1.0)
    by_knobs = run(annealed, levels, denoiser=ORACLE.denoised)
    assert torch.equal(by_default.x, by_knobs.x)
    by_hand = algorithm(annealed, process, N, delta=1 / N, chi=1.0, L=1, n=0)
    # 19 steps whose slopes 1 - delta sigma²/s² never exceed 1 in size: rounding does not grow
    torch.testing.assert_close(by_default.x, by_hand, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["adls", "asams"])
@pytest.mark.parametrize(("L", "n", "chi"), [(1, 0, 0.995), (3, 0, 0.999), (2, 4, 0.99)])
def test_algorithms_of_the_paper_as_loops(name: str, L: int, n: int, chi: float) -> None:
    N, delta = 25, 0.6 / (25 * L)
    levels = plan(PROCESS, uniform(PROCESS, N), chi=chi ** (N / 1000), L=L, n=n, r=L * delta * N)
    drawn = run(name, levels, denoiser=ORACLE.denoised)
    by_hand = algorithm(name, PROCESS, N, delta, chi, L, n)
    torch.testing.assert_close(drawn.x, by_hand, rtol=1e-9, atol=1e-12)


def algorithm(name: str, process: GBM, N: int, delta: float, chi: float, L: int, n: int) -> Tensor:
    """Algorithms 1 and 2 in x, index by index, with the start and noise of `run`.

    The process has m(t) = (mu - sigma²/2) t, which the oracle does not know.
    """
    noise, x = generator(3), (0.3 + 0.8 * normal((5, 3), 4)).exp()
    sigma, kappa = process.sigma, 1.0
    mu = sigma**2 / 2 if process.mu is None else process.mu
    assert isinstance(mu, float)

    def step(x: Tensor, k: int, kappa: float) -> Tensor:
        t = k / N
        centred = x.abs() * math.exp(-(mu - sigma**2 / 2) * t)
        pull = delta * sigma**2 * ORACLE.hyvarinen(centred, sigma * math.sqrt(t))
        z = torch.randn(x.shape, generator=noise, dtype=torch.float64)
        pull = pull + kappa * sigma * math.sqrt(delta) * z
        if name == "adls":
            return x * torch.exp(-delta * (mu - 1.5 * sigma**2) + pull)
        return x * ((1 + 2 * delta * sigma**2) - delta * mu + pull)

    for k in range(N - 1, 0, -1):
        for _ in range(L):
            x = step(x, k, kappa)
        kappa *= chi
    for _ in range(n):
        x = step(x, 1, 0.0)
    return x


# --- signs ---


@pytest.mark.parametrize("name", SIGN_PRESERVING)
def test_sign_preserving_samplers_keep_signs_when_pushed(name: str) -> None:
    hard = STEP._replace(s=2.0, s_next=0.1, variance=9.0, drift=-4.0, kappa=3.0)
    start = state(2000)
    after, info = SAMPLERS[name].step(elementwise, start, hard, normal((2000, 3), 9))
    assert torch.equal(after.sign, start.sign)
    assert bool((after.x.sign() == start.sign).all())
    assert info.crossed is None
    drawn = run(name, [hard] * 2, limits=Limits(flips=0))
    assert drawn.reason is None
    assert int(drawn.flipped.sum()) == 0
    assert bool((drawn.x > 0).all())


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in SIGN_PRESERVING])
def test_sign_agnostic_samplers_cross_when_pushed_and_are_counted(name: str) -> None:
    pushed = [STEP._replace(variance=0.5, kappa=1.0)] * 6
    drawn = run(name, pushed, shape=(40, 3), frames=range(6))
    signs = torch.stack([*drawn.frames, drawn.x]).sign()  # [7, 40, 3]
    ever = (signs.diff(dim=0) != 0).any(0)
    assert torch.equal(drawn.flipped, ever.sum(1))
    assert int(drawn.flipped.sum()) > 0
    # a pixel that crossed twice is back at +1 and still counted
    assert int((drawn.x < 0).sum()) < int(drawn.flipped.sum())


def test_driver_stops_at_too_many_crossings() -> None:
    pushed = [STEP._replace(variance=0.5, kappa=1.0)] * 20
    within = run("asams", pushed, shape=(40, 3), limits=Limits(flips=120))
    assert within.reason is None
    assert within.evaluations == 20
    stopped = run("asams", pushed, shape=(40, 3), limits=Limits(flips=10))
    assert "pixels changed sign, 10 may at step" in (stopped.reason or "")
    assert stopped.evaluations < 20
    assert int(stopped.flipped.sum()) > 10


# --- divergence ---


def test_driver_stops_at_a_value_that_is_not_finite() -> None:
    calls: list[float] = []

    def failing(y: Tensor, s: float) -> Tensor:
        calls.append(s)
        bad = elementwise(y, s)
        if len(calls) == 3:
            bad[2, 1] = math.nan
        return bad

    drawn = run("adls", [STEP] * 10, denoiser=failing)
    assert drawn.reason == "a value is not finite at step 3 of 10 (s = 0.5)"
    assert drawn.evaluations == len(calls) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_driver_stops_where_x_overflows_though_its_logarithm_does_not(dtype: torch.dtype) -> None:
    edge = math.log(torch.finfo(dtype).max)
    still = STEP._replace(variance=0.0, drift=0.0)
    z = torch.zeros(2, 3, dtype=dtype)
    below, above = (
        drive(adls, elementwise, torch.full_like(z, y), [still], lambda j: z)
        for y in (edge - 1, edge + 1)
    )
    assert below.reason is None
    assert bool(below.x.isfinite().all())
    assert above.reason == "a value is not finite at step 1 of 1 (s = 0.5)"


def test_driver_stops_outside_the_radius() -> None:
    """y grows by a factor of 1 + variance/s² = 1.19 a step: from |y - 2| < 10 to 100 in some 20."""
    steps, limits = [STEP._replace(kappa=0.0)] * 100, Limits(centre=2.0, radius=100.0)

    def away(y: Tensor, s: float) -> Tensor:
        return 2 * y - 2.0

    drawn = run("adls", steps, denoiser=away, limits=limits)
    assert drawn.reason is not None
    assert "|log x - mean| = " in drawn.reason
    assert "exceeds 100" in drawn.reason
    assert 10 < drawn.evaluations < 40
    assert float((drawn.x.log() - 2.0).abs().amax()) > 100
    free = run("adls", steps[: drawn.evaluations - 1], denoiser=away, limits=limits)
    assert free.reason is None


def test_radius_is_measured_from_the_centre() -> None:
    start = torch.full((2, 3), 5.0, dtype=torch.float64)
    still = STEP._replace(variance=0.0, drift=0.0)

    def reason(centre: float) -> str | None:
        limits = Limits(centre, radius=1.0)
        return drive(adls, elementwise, start, [still], lambda j: start, limits).reason

    assert reason(4.5) is None
    assert "exceeds 1" in (reason(0.0) or "")


def test_padding_does_not_stop_a_run() -> None:
    """Only the first `rows` samples count: for values, distance and crossings."""
    start = torch.zeros(4, 3, dtype=torch.float64)
    z = torch.zeros(4, 3, dtype=torch.float64)
    start[2], z[3] = 900.0, -100.0  # far away; crosses

    def reason(rows: int | None) -> str | None:
        limits = Limits(radius=10.0, flips=0, rows=rows)
        return drive(asams, elementwise, start, [STEP], lambda j: z, limits).reason

    assert reason(2) is None
    assert "not finite" in (reason(3) or "")
    assert "not finite" in (reason(None) or "")
    start[2] = 0.0
    assert reason(3) is None
    assert "pixels changed sign" in (reason(None) or "")


# --- one function, three names ---


def test_exponentiated_gradient_descent() -> None:
    """x exp(-eta grad ∘ sign(x)) is the Dale step at delta mu = 3 delta sigma²/2, kappa = 0."""
    start, eta, gradient = state(), 0.3, normal((6, 3), 10)
    expected = start.x * torch.exp(-eta * gradient * start.x.sign())
    for variance in (0.0, 0.1, 2.0):  # it has no say
        step = STEP._replace(drift=1.5 * variance, variance=variance, kappa=0.0)
        pull = -eta * gradient * start.sign
        y = dale_step(start.y, pull, step, normal((6, 3), 11))
        torch.testing.assert_close(start.sign * y.exp(), expected, rtol=1e-13, atol=0)


def test_mirrored_langevin_has_its_stationary_variance() -> None:
    """y <- (1 - eps/v) y + √(2 eps) z has stationary variance v/(1 - eps/(2 v)), not v.

    The start's excess decays by (1 - eps/v)² = 1/4 a step, 1e-12 after 20. The sample variance of
    n normals has the relative standard error √(2/n) = 0.0032; the two claims are 33 % apart.
    """
    count, v, eps = 200_000, 0.04, 0.02
    noise = generator(12)
    step = STEP._replace(s=1.0, s_next=1.0, drift=eps / 2, variance=eps, kappa=math.sqrt(2))
    chain = State.of_log(math.sqrt(v) * normal((count, 1), 13))
    for _ in range(20):
        z = torch.randn((count, 1), generator=noise, dtype=torch.float64)
        chain, _ = adls(lambda y, s: y - y / v, chain, step, z)  # D = y + s² log_score, s = 1
    measured, tolerance = float(chain.y.var()), 4 * math.sqrt(2 / count)
    assert measured == pytest.approx(v / (1 - eps / (2 * v)), rel=tolerance)
    assert measured != pytest.approx(v, rel=tolerance)


# --- the kappa-consistent family ---


def test_consistent_at_kappa_one_is_adls() -> None:
    step, z = STEP._replace(kappa=1.0), normal((6, 3), 14)
    ours, theirs = (k(ORACLE.denoised, state(), step, z)[0] for k in (adls_consistent, adls))
    torch.testing.assert_close(ours.y, theirs.y, rtol=1e-14, atol=1e-14)
    ours, theirs = (k(ORACLE.denoised, state(), step, z)[0] for k in (asams_consistent, asams))
    torch.testing.assert_close(ours.x, theirs.x, rtol=1e-13, atol=1e-14)


def small_step(variance: float, kappa: float) -> Level:
    """From s = 0.5 down by `variance`, with the paper's drift."""
    s = 0.5
    return Level(s, math.sqrt(s**2 - variance), 0.0, 0.0, variance / 2, variance, kappa)


def assert_second_order(gap: Callable[[float], float]) -> None:
    """gap(h) = c h² (1 + O(h)) with the O(h) under 20 h, since (h/s²) is the scale of a step: with
    h = 1e-3 the slope is 2 within log2(1 + 20 h) = 0.03; and c is not zero."""
    coarse, fine = gap(1e-3), gap(5e-4)
    assert fine > 1e-12
    assert math.log2(coarse / fine) == pytest.approx(2, abs=0.05)


def test_consistent_at_kappa_zero_is_the_probability_flow() -> None:
    """dy/d(s²) = -½ log_score: one step agrees with the ODE's Euler step to second order."""
    z = normal((6, 3), 15)

    def gap(h: float) -> float:
        step = small_step(h, kappa=0.0)
        ours, flow = (k(ORACLE.denoised, state(), step, z)[0].y for k in (adls_consistent, euler))
        return float((ours - flow).abs().max())

    assert_second_order(gap)
    moved = adls_consistent(ORACLE.denoised, state(), small_step(1e-3, 0.0), z)[0].y - state().y
    expected = 1e-3 / 2 * ORACLE.log_score(state().y, 0.5)
    torch.testing.assert_close(moved, expected, rtol=1e-10, atol=1e-12)


def log_drift(kernel: Kernel, level: Level) -> Tensor:
    """E_z of the change of y in one step, by Gauss-Hermite quadrature (20 nodes, |z| < 7.7)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    moves = [
        w * (kernel(ORACLE.denoised, state(), level, torch.full((6, 3), z).double())[0].y)
        for z, w in zip(nodes, weights / weights.sum(), strict=True)
    ]
    return torch.stack(moves).sum(0) - state().y


@pytest.mark.parametrize("kappa", [0.0, 0.3, 0.8, 1.0])
def test_consistent_pair_has_one_log_drift(kappa: float) -> None:
    def gap(h: float) -> float:
        pair = (log_drift(k, small_step(h, kappa)) for k in (adls_consistent, asams_consistent))
        return float((next(pair) - next(pair)).abs().max())

    assert_second_order(gap)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
def test_annealed_asams_drifts_from_adls(kappa: float) -> None:
    """As printed its log-drift exceeds that of ADLS by delta sigma² (1 - kappa²)/2."""

    def gap(h: float) -> float:
        level = small_step(h, kappa)
        excess = log_drift(asams, level) - log_drift(adls, level)
        return float((excess - h * (1 - kappa**2) / 2).abs().max())

    assert_second_order(gap)
