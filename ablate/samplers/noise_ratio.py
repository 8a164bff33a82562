"""The noise that literal steps leave on a grid, against that of the law that they discretise.

In a direction in which the data hardly vary, D is fixed, and e = y - D is noise alone. Let u be its
variance in units of v = s². It starts at u = 1. With the rates (pull a, noise b²) of a law:

    limit of small steps:   du/dl = (1 - 2a) u + b²,   l = -log v
    a level of L steps:     u <- (p^(2L) u + b² (x/L) (1 - p^(2L))/(1 - p²)) / (1 - x)

with x = 1 - (s_next/s)² and p = 1 - a x/L. For fixed rates the first becomes, over a span h of l,

    u <- exp(c) u + b² h (exp(c) - 1)/c,   c = (1 - 2a) h

On a geometric grid with fixed rates both settle, if 2a > 1: the first at b²/(2a - 1), the second,
for L = 1, at b² x/((1 - x) - (1 - a x)²). So the ratio of the two settles at

    (2a - 1)/(2a - 1 - a² x)

For a = 1 this is (s/s_next)²: the noise at a level is that of the level above it. The ratio of the
two recursions is used rather than this one because annealing takes 2a - 1 to 0: noise then takes
more levels to settle than there are, and with r <= 1/2 it never does.

ASAMS takes its steps in x. Their logarithm adds terms of the order of the variance removed, which
are left out here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate

import torch
from torch import Tensor

from ablate.diffusion.grids import Step, annealing, relative_steps
from ablate.diffusion.processes import Process
from ablate.samplers.laws import Law

SPAN = 0.02
"""Span in log v over which the rates of the law are taken as fixed, at its middle."""

LARGEST = 1e9
"""Bound on ratios, so that a sampler that explodes still has one to compare and to record."""


def noise_ratios(
    process: Process, grid: Tensor, law: Law, *, chi: float = 1.0, r: Step = 1.0, L: int = 1
) -> list[float]:
    """Variance of the literal run's noise over the law's, on arrival at each level but the first.

    grid: [N], ending at 0. The step to 0 is left out: the paper takes it in the same way.
    """
    literal = literal_variances(process, grid, law, chi=chi, r=r, L=L)
    limit = limit_variances(process, grid, law, chi=chi, r=r)
    return [_bounded(here, there) for here, there in zip(literal, limit, strict=True)]


def literal_variances(
    process: Process, grid: Tensor, law: Law, *, chi: float = 1.0, r: Step = 1.0, L: int = 1
) -> list[float]:
    """u of the literal run on arrival at each positive level but the first."""
    kappas = annealing(process.time(grid), chi)[:-1]
    rates = law(kappas, relative_steps(r, kappas))
    removed = 1 - (grid[1:-1] / grid[:-2]) ** 2
    once = (1 - rates.pull * removed / L) ** 2
    times = torch.where(once == 1, float(L), (1 - once**L) / (1 - once))
    left = 1 - removed
    return _followed(once**L / left, rates.noise * removed / L * times / left)


def limit_variances(
    process: Process, grid: Tensor, law: Law, *, chi: float = 1.0, r: Step = 1.0
) -> list[float]:
    """u of the law itself at each positive level but the first; kappa changes within a level."""
    spans = 2 * (grid[:-2] / grid[1:-1]).log()
    counts = (spans / SPAN).ceil().long()
    steps = (spans / counts).repeat_interleave(counts)
    middles = grid[0] * ((steps / 2 - steps.cumsum(0)) / 2).exp()
    times = process.time(torch.cat([grid[:1], middles, grid[-1:]]))
    kappas = annealing(times, chi)[1:]
    rates = law(kappas, relative_steps(r, kappas))
    growth = (1 - 2 * rates.pull) * steps
    mean = torch.where(growth == 0, 1.0, growth.expm1() / growth)
    u = _followed(growth.exp(), rates.noise * steps * mean)
    return [u[end - 1] for end in counts.cumsum(0).tolist()]


def _followed(factor: Tensor, added: Tensor) -> list[float]:
    """u <- factor u + added, from u = 1: its value after each step."""
    steps: Iterable[tuple[float, float]] = zip(factor.tolist(), added.tolist(), strict=True)
    return list(accumulate(steps, lambda u, step: step[0] * u + step[1], initial=1.0))[1:]


def _bounded(literal: float, limit: float) -> float:
    ratio = literal / limit if limit > 0 else math.inf
    return LARGEST if math.isnan(ratio) else min(max(ratio, 1 / LARGEST), LARGEST)
