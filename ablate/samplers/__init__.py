"""The samplers by name. A new one is one kernel and one line here."""

from __future__ import annotations

from typing import NamedTuple

from ablate.samplers.adls import adls, adls_consistent
from ablate.samplers.asams import asams, asams_as_printed, asams_consistent
from ablate.samplers.kernel import Kernel
from ablate.samplers.ode import euler, heun

ANNEALED = frozenset({"chi", "L", "r", "delta", "n"})
PLAIN: frozenset[str] = frozenset()


class Sampler(NamedTuple):
    """A kernel with the knobs it listens to; the others must not be set for it."""

    kernel: Kernel
    knobs: frozenset[str]
    about: str
    evaluations: int = 1  # of the network, per step
    at_zero: int = 1  # and on the step that ends on s = 0
    stochastic: bool = True

    def nfe(self, N: int, L: int = 1, n: int = 0) -> int:
        """Network evaluations of a run on N levels: L (N - 1) + n for the paper's samplers."""
        return self.evaluations * L * (N - 2) + self.at_zero * L + n


SAMPLERS: dict[str, Sampler] = {
    "adls": Sampler(adls, ANNEALED, "annealed Dale-Langevin, sign-preserving"),
    "asams": Sampler(asams, ANNEALED, "annealed sign-agnostic"),
    "asams-as-printed": Sampler(asams_as_printed, ANNEALED, "Algorithm 2 with its misprinted sign"),
    "adls-consistent": Sampler(adls_consistent, ANNEALED, "ADLS with drift to match any kappa"),
    "asams-consistent": Sampler(asams_consistent, ANNEALED, "ASAMS with drift to match any kappa"),
    "dale-langevin": Sampler(adls, PLAIN, "plain Euler-Maruyama in log x: ADLS at chi = r = 1"),
    "sign-agnostic": Sampler(asams, PLAIN, "plain Euler-Maruyama in x: ASAMS at chi = r = 1"),
    "pf-euler": Sampler(euler, PLAIN, "probability flow, first order", stochastic=False),
    "pf-heun": Sampler(heun, PLAIN, "probability flow, second order", 2, 1, stochastic=False),
}
