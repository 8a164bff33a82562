"""A start, a step and a run that the tests of samplers share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import Level, plan
from ablate.diffusion.processes import GBM, Process
from ablate.samplers.drive import NO_LIMITS, Drawn, Limits, drive
from ablate.samplers.kernel import Denoiser, State
from ablate.samplers.registry import SAMPLERS, Sampler
from tests.samplers.adams_bashforth import ADAMS_BASHFORTH
from tests.support.beds import generator, normal, three_dimensions

PROCESS, ORACLE = GBM(0.8), three_dimensions()
STEP = Level(s=0.5, s_next=0.45, shift=0.0, shift_next=0.0, drift=0.02, variance=0.0475, kappa=0.7)

CLIMB = STEP._replace(s_next=0.6, variance=-0.11)

EVERY = [*SAMPLERS.values(), ADAMS_BASHFORTH]
"""The samplers of the registry, and a toy with a memory and a knob of its own."""


def over(samplers: list[Sampler]) -> pytest.MarkDecorator:
    """Runs a test for each of these samplers."""
    return pytest.mark.parametrize("sampler", samplers, ids=lambda sampler: sampler.name)


every_sampler = over(EVERY)
every_flow = over([sampler for sampler in EVERY if not sampler.stochastic])


def elementwise(y: Tensor, s: float) -> Tensor:
    """The denoiser of independent N(0.3, 0.05) pixels: any shape, any type."""
    return 0.3 + 0.05 / (0.05 + s**2) * (y - 0.3)


def state(count: int = 6, seed: int = 1) -> State:
    """Both signs, in three dimensions."""
    y = 0.3 + 0.5 * normal((count, 3), seed)
    return State(y, torch.where(normal((count, 3), seed + 1) < 0, -1.0, 1.0).double())


def noisiest(sampler: Sampler) -> Level:
    """A step that has noise if any has: a climb, if the sampler's path has climbs."""
    return CLIMB if sampler.path else STEP


def path_plan(
    sampler: Sampler,
    process: Process,
    grid: Tensor,
    L: int = 1,
    n: int = 0,
    own: Mapping[str, Any] | None = None,
) -> list[Level]:
    """The plan of a sampler on a grid, along its own path."""
    return plan(process, sampler.visited(grid, own), L=L, n=n)


def first(sampler: Sampler, start: State) -> State:
    """The state before a sampler's first step: with its memory, if it has one."""
    init = sampler.first_memory()
    return start if init is None else start._replace(memory=init(start))


def drive_sampler(
    sampler: Sampler,
    denoiser: Denoiser,
    start: Tensor,
    levels: list[Level],
    noise: Callable[[int], Tensor],
    limits: Limits = NO_LIMITS,
    frames: Collection[int] = (),
    own: Mapping[str, Any] | None = None,
) -> Drawn:
    """A sampler down a plan, with its own knobs set and its memory made."""
    return drive(
        sampler.kernel(own),
        denoiser,
        start,
        levels,
        noise,
        limits,
        frames,
        sampler.first_memory(own),
    )


def run(
    sampler: Sampler,
    levels: list[Level],
    shape: tuple[int, ...] = (5, 3),
    denoiser: Denoiser = elementwise,
    limits: Limits = NO_LIMITS,
    frames: Collection[int] = (),
) -> Drawn:
    """A sampler down a plan from a seeded start with seeded noise."""
    noise = generator(3)
    start = 0.3 + 0.8 * normal(shape, 4)
    return drive_sampler(
        sampler,
        denoiser,
        start,
        levels,
        lambda j: torch.randn(shape, generator=noise, dtype=torch.float64),
        limits,
        frames,
    )
