"""From a configuration to the steps that its sampler takes, and the kernel that takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ablate.diffusion import grids
from ablate.diffusion.grids import Level
from ablate.generate.gits import fitted_grid
from ablate.generate.settings import Settings
from ablate.models.score_model import ScoreModel
from ablate.samplers.exponential import (
    FineSteps,
    exponential,
    fine_steps,
    first_steps,
    long_steps,
    nearest_fine,
)
from ablate.samplers.kernel import Kernel, State


def noise_levels(settings: Settings, score: ScoreModel | None = None) -> Tensor:
    """The grid that is walked literally, [N], ending at 0.

    score: the network that a fitted grid is fitted to; other grids need none.
    """
    if settings.paper_levels is not None:
        return grids.uniform(settings.process, settings.paper_levels)
    if settings.grid == "geometric":
        return grids.geometric(settings.process, settings.levels, settings.floor, settings.cap)
    if settings.grid == "gits":
        if score is None:
            raise ValueError("grid 'gits' is fitted to a network, and none is given")
        return fitted_grid(settings, score)
    spaced = {"karras": grids.karras, "uniform-t": grids.uniform_in_time}[settings.grid]
    return spaced(settings.process, settings.levels, settings.floor)


def literal_steps(settings: Settings) -> FineSteps:
    """The literal run that an exponential integrator stands for."""
    law, N = settings.kind.law, settings.paper_levels
    assert law is not None
    assert N is not None
    chi, r, L = settings.chi or 1.0, settings.relative_step, settings.L or 1
    return fine_steps(settings.process, N, law, chi=chi, r=r, L=L, n=settings.n or 0)


def evaluated(settings: Settings, fine: FineSteps) -> list[int]:
    """The steps of the literal run at which an exponential integrator evaluates the network."""
    process, N = settings.process, settings.paper_levels
    assert N is not None
    walk, split, rest = settings.spending
    spaced = grids.within_literal(process, settings.grid, N, walk, last=split + 1)
    return first_steps(fine, nearest_fine(spaced, process, N, last=split + 1), split, rest)


def make_plan(settings: Settings, score: ScoreModel | None = None) -> list[Level]:
    """Every step that the sampler takes; score: as for `noise_levels`."""
    if settings.exponential:
        fine = literal_steps(settings)
        return long_steps(settings.process, fine, evaluated(settings, fine), settings.order or 2)
    chi, r, L, n = settings.chi or 1.0, settings.relative_step, settings.L or 1, settings.n or 0
    levels = settings.kind.visited(noise_levels(settings, score), settings.own_knobs)
    return grids.plan(settings.process, levels, chi=chi, r=r, L=L, n=n)


def make_kernel(settings: Settings) -> Kernel:
    """The step that runs down the plan."""
    if settings.exponential:
        return exponential
    return settings.kind.kernel(settings.own_knobs)


def first_memory(settings: Settings) -> Callable[[State], Any] | None:
    """What makes the kernel's memory from the first state; None if it begins without one."""
    return None if settings.exponential else settings.kind.first_memory(settings.own_knobs)
