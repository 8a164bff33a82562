"""Exponential integrators: a few long steps in place of the paper's thousand short ones.

The paper's samplers take N - 1 levels, s_{N-1} to s_1, with L steps at each and n noise-free steps
at the last. With D fixed, each of these steps is y - D <- p (y - D) + bias + noise z with numbers
that are known beforehand, so any number of them can be taken at once, exactly. Here the fine levels
are grouped into a few long steps with one evaluation of D each:

- first order: D is held fixed over a long step;
- second order: D changes linearly in -log s, with the slope that it had over the previous step.

So `N` is the number of levels of the literal run that the result stands for, and the number of long
steps is what is spent. With N - 1 long steps, L = 1 and n = 0 this is the literal run of ADLS.

In x a step is x <- D_x ∘ (x / D_x)^keep ∘ exp(…), a geometric interpolation between the state and
the denoised image: it is multiplicative and keeps signs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.diffusion.grids import Level, Linear, Step, annealing, relative_steps, uniform
from ablate.diffusion.processes import Process, shift
from ablate.samplers.kernel import Denoiser, Info, State
from ablate.samplers.laws import Law


class Past(NamedTuple):
    """What the second order keeps from the previous step."""

    s: float
    denoised: Tensor


def exponential(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, order: int = 2
) -> tuple[State, Info]:
    """One long step: y <- D + keep (y - D) + slope D' + bias + noise z."""
    step = level.linear
    assert step is not None
    y = state.y - level.shift
    denoised = denoiser(y, level.s)
    ahead = torch.lerp(denoised, y, step.keep).add_(z, alpha=step.noise)
    if order == 2 and state.memory is not None and step.slope:
        slope = step.slope / math.log(state.memory.s / level.s)
        ahead.add_(denoised - state.memory.denoised, alpha=slope)
    ahead.add_(step.bias + level.shift_next)
    return state._replace(y=ahead, memory=Past(level.s, denoised)), Info()


class FineSteps(NamedTuple):
    """The literal run, from s_{N-1} down to s_1: at each level L steps with these numbers."""

    s: list[float]
    keep: list[float]  # 1 - pull dv/(L v)
    bias: list[float]
    noise: list[float]  # standard deviation
    kappa: list[float]
    L: int
    terminal: Linear  # one noise-free step at s_1


def fine_steps(
    process: Process, N: int, law: Law, *, chi: float = 1.0, r: Step = 1.0, L: int = 1
) -> FineSteps:
    """The steps of the literal run on the paper's N levels."""
    grid = uniform(process, N)
    kappas = annealing(process.time(grid), chi)
    steps = relative_steps(r, kappas)
    removed = (grid[:-1] ** 2 - grid[1:] ** 2) / L
    share = removed / grid[:-1] ** 2
    rates = law(kappas, steps)
    resting = law(0 * kappas[-1:], steps[-1:])
    terminal = Linear(
        1 - float(resting.pull * share[-1:]), 0.0, float(resting.bias * removed[-1:]), 0.0
    )
    return FineSteps(
        s=grid[:-1].tolist(),
        keep=(1 - rates.pull * share).tolist(),
        bias=(rates.bias * removed).tolist(),
        noise=(rates.noise * removed).sqrt().tolist(),
        kappa=kappas.tolist(),
        L=L,
        terminal=terminal,
    )


def folded(fine: FineSteps, first: int, last: int) -> Linear:
    """The steps of the fine levels from `first` up to, not including, `last` as one."""
    keep, slope, bias, variance = 1.0, 0.0, 0.0, 0.0
    for i in range(first, last):
        ahead, p = math.log(fine.s[first] / fine.s[i]), fine.keep[i]
        for _ in range(fine.L):
            keep *= p
            slope = p * slope + (1 - p) * ahead
            bias = p * bias + fine.bias[i]
            variance = p * p * variance + fine.noise[i] ** 2
    return Linear(keep, slope, bias, math.sqrt(variance))


def nearest_fine(levels: Tensor, process: Process, N: int) -> list[int]:
    """The places among the fine levels that lie nearest to these levels, each used once.

    levels: at most N - 1, falling from s_{N-1} to s_1.
    """
    places: list[int] = (N - 1 - process.time(levels) * N).round().long().tolist()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + 1)
    for i in range(len(places)):  # leave room for those that follow
        places[i] = min(places[i], N - 1 - (len(places) - i))
    return places


def long_steps(process: Process, fine: FineSteps, places: Sequence[int], n: int = 0) -> list[Level]:
    """The plan: a long step from each place to the next, then the n noise-free steps as one."""
    s = torch.tensor([fine.s[place] for place in places] + [0.0], dtype=torch.float64)
    shifts = shift(process, process.time(s)).tolist()
    ends = [*places[1:], len(fine.s)]
    levels = [
        Level(
            s=fine.s[first],
            s_next=float(s[i + 1]),
            shift=shifts[i],
            shift_next=shifts[i + 1],
            drift=0.0,
            variance=0.0,
            kappa=fine.kappa[first],
            linear=folded(fine, first, last),
        )
        for i, (first, last) in enumerate(zip(places, ends, strict=True))
    ]
    if n:
        rest = _repeated(fine.terminal, n)
        levels.append(levels[-1]._replace(shift=shifts[-1], kappa=0.0, linear=rest))
    return levels


def _repeated(step: Linear, times: int) -> Linear:
    """A noise-free step taken several times with the same D."""
    keep, bias = 1.0, 0.0
    for _ in range(times):
        keep, bias = step.keep * keep, step.keep * bias + step.bias
    return Linear(keep, 0.0, bias, 0.0)
