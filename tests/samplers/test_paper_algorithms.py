"""Algorithms 1 and 2 of the paper, and their plain case, as loops over indices."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ablate.diffusion.grids import plan, uniform
from ablate.diffusion.processes import GBM
from ablate.samplers.registry import SAMPLERS
from tests.samplers.runs import ORACLE, PROCESS, run
from tests.support.beds import generator, normal


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


@pytest.mark.parametrize("mu", [None, 0.5])
@pytest.mark.parametrize("pair", [("dale-langevin", "adls"), ("sign-agnostic", "asams")])
def test_plain_pair_is_the_boxed_equation(pair: tuple[str, str], mu: float | None) -> None:
    """delta = 1/N, levels N-1…1: Euler-Maruyama in x, and the annealed one at chi = L = r = 1."""
    plain, annealed = pair
    N, process = 20, GBM(0.8, mu)
    by_default = run(SAMPLERS[plain], plan(process, uniform(process, N)), denoiser=ORACLE.denoised)
    levels = plan(process, uniform(process, N), chi=1.0, L=1, n=0, r=1.0)
    by_knobs = run(SAMPLERS[annealed], levels, denoiser=ORACLE.denoised)
    assert torch.equal(by_default.x, by_knobs.x)
    by_hand = algorithm(annealed, process, N, delta=1 / N, chi=1.0, L=1, n=0)
    # 19 steps whose slopes 1 - delta sigma²/s² never exceed 1 in size: rounding does not grow
    torch.testing.assert_close(by_default.x, by_hand, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["adls", "asams"])
@pytest.mark.parametrize(("L", "n", "chi"), [(1, 0, 0.995), (3, 0, 0.999), (2, 4, 0.99)])
def test_algorithms_of_the_paper_as_loops(name: str, L: int, n: int, chi: float) -> None:
    N, delta = 25, 0.6 / (25 * L)
    levels = plan(PROCESS, uniform(PROCESS, N), chi=chi ** (N / 1000), L=L, n=n, r=L * delta * N)
    drawn = run(SAMPLERS[name], levels, denoiser=ORACLE.denoised)
    by_hand = algorithm(name, PROCESS, N, delta, chi, L, n)
    torch.testing.assert_close(drawn.x, by_hand, rtol=1e-9, atol=1e-12)
