"""Exponential integrators: a few long steps in place of the paper's thousands of short ones.

The paper's samplers walk N - 1 levels, s_{N-1} to s_1, with L steps at each, and then take n
noise-free steps at the last. With D fixed, each step is y - D <- p (y - D) + bias + noise z, with
numbers that are known beforehand, so any number of them can be taken at once, exactly. Here they
are grouped into a few long steps with one evaluation of D each:

- first order: D is held fixed over a long step;
- second order: D changes linearly over it, at the rate that it had over the previous one.

So `N` is the number of levels of the literal run that the result stands for, and the number of long
steps is what is spent. With as many long steps as short ones it is the literal run of ADLS.

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


def exponential(denoiser: Denoiser, state: State, level: Level, z: Tensor) -> tuple[State, Info]:
    """One long step: y <- D + keep (y - D) + slope (D - D of the step before) + bias + noise z."""
    step = level.linear
    assert step is not None
    y = state.y - level.shift
    denoised = denoiser(y, level.s)
    ahead = torch.lerp(denoised, y, step.keep).add_(z, alpha=step.noise)
    if step.slope:
        ahead.add_(denoised - state.memory, alpha=step.slope)
    ahead.add_(step.bias + level.shift_next)
    return state._replace(y=ahead, memory=denoised), Info()


class FineSteps(NamedTuple):
    """The literal run, step by step: `walked` = L (N - 1) from s_{N-1} to s_1, then n at s_1."""

    s: list[float]
    keep: list[float]  # 1 - pull dv/v
    bias: list[float]
    noise: list[float]  # standard deviation
    kappa: list[float]
    L: int
    walked: int


def fine_steps(
    process: Process, N: int, law: Law, *, chi: float = 1.0, r: Step = 1.0, L: int = 1, n: int = 0
) -> FineSteps:
    """The steps of the literal run on the paper's N levels."""
    grid = uniform(process, N)
    kappas, removed = annealing(process.time(grid), chi), (grid[:-1] ** 2 - grid[1:] ** 2) / L
    r_of_each = relative_steps(r, kappas)

    def each(levels: Tensor) -> Tensor:
        """A number of each level -> of each step."""
        return torch.cat([levels.repeat_interleave(L), levels[-1:].expand(n)])

    kappas = torch.cat([kappas.repeat_interleave(L), kappas.new_zeros(n)])
    s, removed = each(grid[:-1]), each(removed)
    rates, share = law(kappas, each(r_of_each)), removed / s**2
    return FineSteps(
        s=s.tolist(),
        keep=(1 - rates.pull * share).tolist(),
        bias=(rates.bias * removed).tolist(),
        noise=(rates.noise * removed).sqrt().tolist(),
        kappa=kappas.tolist(),
        L=L,
        walked=L * (N - 1),
    )


def folded(fine: FineSteps, first: int, last: int) -> Linear:
    """The steps from `first` up to, not including, `last` as one; slope: per unit of `moved`."""
    keep, slope, bias, variance = 1.0, 0.0, 0.0, 0.0
    within = fine.s[first] == fine.s[last - 1]
    for i in range(first, last):
        p = fine.keep[i]
        keep *= p
        slope = p * slope + (1 - p) * moved(fine, first, i, within)
        bias = p * bias + fine.bias[i]
        variance = p * p * variance + fine.noise[i] ** 2
    return Linear(keep, slope, bias, math.sqrt(variance))


def moved(fine: FineSteps, first: int, last: int, within: bool) -> float:
    """What D changes with: the steps within one level, or the fall of log s from level to level."""
    return float(last - first) if within else math.log(fine.s[first] / fine.s[last])


def slope_weight(fine: FineSteps, before: int, first: int, last: int, slope: float) -> float:
    """The weight of D less the D before: 0 if that was at another level and this step stays."""
    within = fine.s[first] == fine.s[last - 1]
    if not slope or within != (fine.s[before] == fine.s[first]):
        return 0.0
    return slope / moved(fine, before, first, within)


def nearest_fine(levels: Tensor, process: Process, N: int, last: int = 1) -> list[int]:
    """The places among the fine levels that lie nearest to these levels, each used once.

    levels: at most N - last, falling from s_{N-1} to s_last.
    """
    places: list[int] = (N - 1 - process.time(levels) * N).round().long().tolist()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + 1)
    for i in range(len(places)):  # leave room for those that follow
        places[i] = min(places[i], N - last - (len(places) - i))
    return places


def first_steps(fine: FineSteps, places: Sequence[int], split: int = 0, rest: int = 0) -> list[int]:
    """The first short step of each long one.

    places: of levels at which a long step begins; split: the lowest levels, which take two each,
    the second from a third of the L steps on; rest: long steps for the n noise-free ones.
    In these D changes most at first, so the later groups are longer: group i ends at n (i/rest)².
    """
    L, n = fine.L, len(fine.s) - fine.walked
    low = [
        fine.walked - k * L + inner for k in range(split, 0, -1) for inner in (0, max(1, L // 3))
    ]
    ends = [max(i, round(n * (i / rest) ** 2)) for i in range(rest)]
    return [place * L for place in places] + low + [fine.walked + end for end in ends]


def long_steps(
    process: Process, fine: FineSteps, firsts: Sequence[int], order: int = 2
) -> list[Level]:
    """The plan: a long step from each of `firsts` to the next, the last to the end."""
    s = torch.tensor([fine.s[i] if i < fine.walked else 0.0 for i in firsts] + [0.0]).double()
    shifts = shift(process, process.time(s)).tolist()
    levels = []
    for i, (first, last) in enumerate(zip(firsts, [*firsts[1:], len(fine.s)], strict=True)):
        step = folded(fine, first, last)
        slope = 0.0
        if order == 2 and i:
            slope = slope_weight(fine, firsts[i - 1], first, last, step.slope)
        level = Level(
            s=fine.s[first],
            s_next=float(s[i + 1]),
            shift=shifts[i],
            shift_next=shifts[i + 1],
            drift=0.0,
            variance=0.0,
            kappa=fine.kappa[first],
            linear=step._replace(slope=slope),
        )
        levels.append(level)
    return levels
