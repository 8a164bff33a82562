"""How far exponential integrators are from the literal 1,000-level law, on an exact mixture.

    python -m tests.benchmarks.mixture_error

Prints a table by sampler, order and evaluations: the Wasserstein distance (W1, of y = log x)
between the two laws, and the mean distance of the two runs on the same Brownian path. The mixture
has two modes and its denoiser is exact, so nothing but the integration differs.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.diffusion.grids import plan, uniform, within_literal
from ablate.diffusion.processes import GBM
from ablate.samplers.drive import drive
from ablate.samplers.exponential import exponential, fine_steps, long_steps, nearest_fine
from ablate.samplers.registry import SAMPLERS
from ablate.samplers.shared_path import SharedPath
from tests.support.beds import generator, normal, two_modes, wasserstein

PROCESS, N, COUNT = GBM(0.8), 1000, 40_000
LAWS = (
    ("adls", 1.0, 1.0),
    ("adls", 0.9995, 0.65),
    ("adls", 0.995, 0.55),
    ("asams", 0.9995, 0.65),
    ("adls-consistent", 0.9995, 1.0),
)
"""Sampler, chi and r."""


class Apart(NamedTuple):
    """The distance of an exponential run from the literal one."""

    weak: float  # W1 between the laws
    strong: float  # mean distance on the same path

    @property
    def noise(self) -> float:
        """Standard error of `weak`: the paths' distances, averaged over the sample."""
        return self.strong / math.sqrt(COUNT)


@cache
def path() -> Tensor:
    """z of every step of the literal run, [N - 1, COUNT, 1]; float32 to save memory."""
    return torch.randn((N - 1, COUNT, 1), generator=generator(5))


def start() -> Tensor:
    """y at the first level, from the exact law there."""
    y_0 = two_modes().draw(COUNT, generator(1)).log()
    return y_0 + float(uniform(PROCESS, N)[0]) * normal((COUNT, 1), 2)


@cache
def literal(name: str, chi: float, r: float) -> Tensor:
    """y at the end of the literal run."""
    steps = plan(PROCESS, uniform(PROCESS, N), chi=chi, r=r)
    kernel, denoised = SAMPLERS[name].step, two_modes().denoised
    return drive(kernel, denoised, start(), steps, lambda j: path()[j].double()).x.abs().log()


def apart(name: str, chi: float, r: float, order: int, evaluations: int) -> Apart:
    """The distance of an exponential run with so many evaluations from the literal one."""
    law, exact = SAMPLERS[name].law, literal(name, chi, r)
    assert law is not None
    fine = fine_steps(PROCESS, N, law, chi=chi, r=r)
    places = nearest_fine(within_literal(PROCESS, "geometric", N, evaluations), PROCESS, N)
    shared = SharedPath(fine, places, lambda j: path()[j].double())
    levels = long_steps(PROCESS, fine, places, order)
    y = drive(exponential, two_modes().denoised, start(), levels, shared).x.log()
    between = (y.flatten().sort().values - exact.flatten().sort().values).abs().mean()
    return Apart(float(between), float((y - exact).abs().mean()))


if __name__ == "__main__":
    counts = (6, 8, 12, 16, 24, 32)
    print("| sampler, chi, r | literal to data |", *(f"{c} |" for c in counts))
    print("|---|---|" + "---|" * len(counts))
    for law in LAWS:
        to_data = wasserstein(two_modes(), literal(*law))
        for order in (1, 2):
            found = (apart(*law, order, count) for count in counts)
            cells = (f"{1e3 * each.weak:.2f} / {1e3 * each.strong:.2f} |" for each in found)
            print(
                f"| {law[0]}, {law[1]:g}, {law[2]:g}, order {order} | {1e3 * to_data:.2f} |", *cells
            )
