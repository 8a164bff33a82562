"""The loop that runs a kernel down a plan, counts evaluations and stops a run that diverges."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ablate.diffusion.grids import Level
from ablate.samplers.kernel import Denoiser, Kernel, State

FLIP_SHARE = 1e-3
"""A run diverges when more than this share of its pixels has changed sign."""


class Limits(NamedTuple):
    """When to stop a run: |y - centre| > radius, or more than `flips` pixels changed sign."""

    centre: float = 0.0
    radius: float = float("inf")
    flips: float = float("inf")
    rows: int | None = None  # number of samples that count; the rows after them are padding


class Drawn(NamedTuple):
    """The result of a run, [B, ...], and its cost."""

    x: Tensor
    evaluations: int  # of the network, per sample
    flipped: Tensor  # pixels that ever changed sign, [B]
    reason: str | None  # why the run was stopped, or None
    frames: list[Tensor]  # x before each of the requested steps
    labels: Tensor | None = None  # the class that the network was told for each sample, [B]


class _Counted:
    """A denoiser that counts evaluations of networks."""

    def __init__(self, denoiser: Denoiser, cost: Callable[[float], int]) -> None:
        self.denoiser, self.cost = denoiser, cost
        self.evaluations = 0

    def __call__(self, y: Tensor, s: float) -> Tensor:
        self.evaluations += self.cost(s)
        return self.denoiser(y, s)


NO_LIMITS = Limits()


@torch.no_grad()
def drive(
    kernel: Kernel,
    denoiser: Denoiser,
    start: Tensor,
    plan: list[Level],
    noise: Callable[[int], Tensor],
    limits: Limits = NO_LIMITS,
    frames: Collection[int] = (),
    init: Callable[[State], Any] | None = None,
    cost: Callable[[float], int] = lambda s: 1,
) -> Drawn:
    """Run a kernel from y = log x at the first level of `plan` to x at its end.

    noise: `noise(j)` is z of step j; frames: the steps before which to keep x; init: makes the
    kernel's memory from the first state; cost: network evaluations of one call of the denoiser at
    level s.
    """
    counted = _Counted(denoiser, cost)
    state, shown, reason = State.of_log(start), [], None
    if init is not None:
        state = state._replace(memory=init(state))
    ever_crossed: Tensor | None = None  # stays None if no kernel reports crossings
    for j, level in enumerate(plan):
        if j in frames:
            shown.append(state.x)
        state, info = kernel(counted, state, level, noise(j))
        if info.crossed is not None:
            ever_crossed = info.crossed if ever_crossed is None else ever_crossed | info.crossed
        if reason := _divergence(state, ever_crossed, limits):
            reason = f"{reason} at step {j + 1} of {len(plan)} (s = {level.s:.3g})"
            break
    if ever_crossed is None:
        flipped = torch.zeros(len(start), dtype=torch.long, device=start.device)
    else:
        flipped = ever_crossed.flatten(1).sum(1)
    return Drawn(state.x, counted.evaluations, flipped, reason, shown)


def _divergence(state: State, ever_crossed: Tensor | None, limits: Limits) -> str | None:
    """Why to stop here, or None."""
    y = state.y[: limits.rows]
    low, high = torch.aminmax(y)  # one pass, NaN if there is any; rounding keeps the order
    ends = torch.stack([low - limits.centre, high - limits.centre, high])
    below, above, top = ends.tolist()
    furthest = max(abs(below), abs(above))
    overflow = math.log(torch.finfo(y.dtype).max)  # x = exp(y) is infinite long before y is
    if not (furthest < float("inf") and top <= overflow):  # NaN compares false
        return "a value is not finite"
    if furthest > limits.radius:
        return f"|log x - mean| = {furthest:.3g} exceeds {limits.radius:.3g}"
    if ever_crossed is None or limits.flips == float("inf"):
        return None
    flips = int(ever_crossed[: limits.rows].sum())
    if flips > limits.flips:
        return f"{flips} pixels changed sign, more than {limits.flips:.0f},"
    return None
