"""Every sampler against the contract of kernels and what its record declares."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import Level, geometric, plan
from ablate.diffusion.processes import GBM
from ablate.samplers.kernel import State
from ablate.samplers.noise import StepNoise, start_numbers
from ablate.samplers.registry import SAMPLERS, Sampler
from tests.samplers.runs import (
    ORACLE,
    PROCESS,
    STEP,
    drive_sampler,
    elementwise,
    every_sampler,
    first,
    noisiest,
    path_plan,
    run,
    state,
)
from tests.support.beds import normal


@every_sampler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5, 5)])
def test_kernel_keeps_shape_and_type_and_its_arguments(
    sampler: Sampler, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    y, z = (normal(shape, seed).to(dtype) for seed in (1, 2))
    given = first(sampler, State.of_log(y))
    before = [part.clone() for part in (given.y, given.sign, z)]
    after, info = sampler.kernel()(elementwise, given, noisiest(sampler), z)
    for part in (after.y, after.sign):
        assert part.shape == shape
        assert part.dtype == dtype
        assert bool(part.isfinite().all())
    assert all(
        torch.equal(was, is_) for was, is_ in zip(before, (given.y, given.sign, z), strict=True)
    )
    assert info.crossed is None or info.crossed.shape == shape


@every_sampler
def test_kernel_is_a_function_of_its_arguments(sampler: Sampler) -> None:
    """The same z gives the same bits; another z gives others just where noise is declared."""
    kernel, start, step = sampler.kernel(), first(sampler, state()), noisiest(sampler)
    z, other = normal((6, 3), 4), normal((6, 3), 5)
    once, again, different = (kernel(ORACLE.denoised, start, step, w)[0] for w in (z, z, other))
    assert torch.equal(once.y, again.y)
    assert torch.equal(once.sign, again.sign)
    assert torch.equal(once.y, different.y) is not sampler.stochastic


@every_sampler
@pytest.mark.parametrize(("L", "n"), [(1, 0), (3, 0), (1, 4), (2, 5)])
def test_driver_counts_the_declared_evaluations(sampler: Sampler, L: int, n: int) -> None:
    if "L" not in sampler.knobs:
        L, n = 1, 0
    N, levels = 7, path_plan(sampler, PROCESS, geometric(PROCESS, 7, 0.05), L, n)
    calls: list[float] = []

    def counting(y: Tensor, s: float) -> Tensor:
        calls.append(s)
        return elementwise(y, s)

    drawn = run(sampler, levels, denoiser=counting)
    assert drawn.evaluations == len(calls) == sampler.nfe(N, L, n)
    assert drawn.reason is None
    assert drawn.x.shape == (5, 3)
    assert bool(drawn.x.isfinite().all())
    assert min(calls) == pytest.approx(0.05)  # a denoiser is never asked at s = 0
    if n:
        assert calls[-n:] == [levels[-1].s] * n


def test_nfe_of_the_paper() -> None:
    assert SAMPLERS["adls"].nfe(1000) == 999
    assert SAMPLERS["adls"].nfe(1000, L=6, n=25) == 6 * 999 + 25
    assert SAMPLERS["pf-heun"].nfe(19) == 35


def test_nfe_of_the_few_step_solvers() -> None:
    """One evaluation a level; Heun's two but for the last; those of restarts besides."""
    for name in ("dpm++2m", "dpm++3m", "ipndm", "deis", "unipc"):
        assert SAMPLERS[name].nfe(9) == 8
    assert SAMPLERS["heun-churn"].nfe(9) == SAMPLERS["pf-heun"].nfe(9) == 15
    twice = {"restart_times": 2, "restart_share": 0.5}  # 2 restarts of round(0.5·7) = 4 steps
    assert SAMPLERS["restart"].nfe(9, chosen=twice) == 15 + 2 * 2 * 4


@every_sampler
def test_frames_are_the_states_before_their_steps(sampler: Sampler) -> None:
    levels = plan(PROCESS, geometric(PROCESS, 7, 0.05))
    drawn = run(sampler, levels, frames={0, 2, 5})
    start = 0.3 + 0.8 * normal((5, 3), 4)
    assert len(drawn.frames) == 3
    torch.testing.assert_close(drawn.frames[0], start.exp(), rtol=0, atol=0)
    torch.testing.assert_close(drawn.frames[1], run(sampler, levels[:2]).x, rtol=0, atol=0)
    torch.testing.assert_close(drawn.frames[2], run(sampler, levels[:5]).x, rtol=0, atol=0)
    assert run(sampler, levels).frames == []


@every_sampler
def test_score_is_taken_off_the_shift(sampler: Sampler) -> None:
    """With m(t) ≠ 0 the network, which knows no m, is asked at y - m."""
    start, z, kernel = state(), normal((6, 3), 8), sampler.kernel()

    def stepped(level: Level) -> Tensor:
        shifted = start._replace(y=start.y + level.shift)
        return kernel(ORACLE.denoised, first(sampler, shifted), level, z)[0].y

    without, with_m = stepped(STEP), stepped(STEP._replace(shift=0.4, shift_next=0.3))
    # an SDE kernel moves by drift, which is the same in both; a flow goes from m to m_next
    by_drift = not torch.equal(stepped(STEP._replace(drift=1.0)), without)
    gain = 0.4 if by_drift else 0.3
    torch.testing.assert_close(with_m, without + gain, rtol=1e-11, atol=1e-11)


@every_sampler
def test_samples_do_not_depend_on_the_batch(sampler: Sampler) -> None:
    """Start, noise, every kernel and the driver, in the float32 of a study, bit by bit."""
    process, shape = GBM(0.8), (3, 3, 3)  # 27 pixels: rows lie at odd addresses
    levels = path_plan(sampler, process, geometric(process, 20, 0.02))

    def denoiser(y: Tensor, s: float) -> Tensor:
        return 0.3 + torch.tanh(y - 0.3) * (0.05 / (0.05 + s**2))

    def draw(indices: range) -> Tensor:
        z = start_numbers(3, indices, 27)[1]
        start = (0.3 + levels[0].s * z).view(-1, *shape)
        noise = StepNoise(3, indices, shape)
        return drive_sampler(sampler, denoiser, start, levels, noise).x

    whole = draw(range(64))
    assert bool(whole.isfinite().all())
    for size in (1, 7):
        apart = [draw(range(i, min(i + size, 64))) for i in range(0, 64, size)]
        assert torch.equal(torch.cat(apart), whole)
