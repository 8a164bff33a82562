"""The registry of samplers. To add one, write a kernel and add a record here.

Importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ablate.core.knobs import Knob, values_of
from ablate.core.registry import Registry
from ablate.samplers import laws
from ablate.samplers.adls import adls, adls_consistent
from ablate.samplers.asams import asams, asams_as_printed, asams_consistent
from ablate.samplers.kernel import Kernel, State
from ablate.samplers.laws import Law
from ablate.samplers.ode import euler, heun

ANNEALED = frozenset({"chi", "L", "r", "delta", "n"})
"""Knobs of annealed samplers: they decide the plan of levels that a kernel runs down."""


@dataclass(frozen=True)
class Sampler:
    """A sampler: its step, and all that settings, tests and reports need of it.

    step: the kernel, a pure function `(denoiser, state, level, z, **own) -> (state, info)`.
    order: of convergence as the levels get denser, in law for stochastic samplers; 0 if it does
        not converge to the data's law.
    knobs: the annealing knobs it has; others must not be set for it.
    own: knobs that only this sampler has.
    init: makes `state.memory` from the first state, `(state, **own) -> memory`.
    evaluations: network evaluations per step; at_zero: on the step that ends on s = 0.
    law: what it discretises, if exponential integrators can stand for it.
    """

    name: str
    about: str
    step: Callable[..., Any]
    order: int = 1
    stochastic: bool = True
    knobs: frozenset[str] = frozenset()
    own: tuple[Knob, ...] = ()
    init: Callable[..., Any] | None = None
    evaluations: int = 1
    at_zero: int = 1
    law: Law | None = None

    def nfe(self, N: int, L: int = 1, n: int = 0) -> int:
        """Network evaluations of a run on N levels: L (N - 1) + n for the paper's samplers."""
        return self.evaluations * L * (N - 2) + self.at_zero * L + n

    def own_values(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The values of its own knobs, with defaults where none is chosen."""
        return values_of(self.own, chosen)

    def kernel(self, chosen: Mapping[str, Any] | None = None) -> Kernel:
        """Its step with its own knobs set."""
        own = self.own_values(chosen or {})
        return partial(self.step, **own) if own else self.step

    def first_memory(
        self, chosen: Mapping[str, Any] | None = None
    ) -> Callable[[State], Any] | None:
        """Its `init` with its own knobs set, as the driver takes it; None if it has no memory."""
        return partial(self.init, **self.own_values(chosen or {})) if self.init else None


def _as_printed(
    name: str, step: Kernel, about: str, law: Law | None = None, order: int = 1
) -> Sampler:
    return Sampler(name, about, step, order, knobs=ANNEALED, law=law)


def _consistent(name: str, step: Kernel, about: str) -> Sampler:
    return Sampler(name, about, step, knobs=ANNEALED - {"r", "delta"}, law=laws.consistent)


SAMPLERS: Registry[Sampler] = Registry(
    "sampler",
    "ablate.samplers",
    Sampler,
    [
        _as_printed("adls", adls, "annealed Dale-Langevin, sign-preserving", laws.adls),
        _as_printed("asams", asams, "annealed sign-agnostic", laws.asams),
        _as_printed("asams-as-printed", asams_as_printed, "Algorithm 2 with its misprint", order=0),
        _consistent("adls-consistent", adls_consistent, "ADLS with drift to match any kappa"),
        _consistent("asams-consistent", asams_consistent, "ASAMS with drift to match any kappa"),
        Sampler("dale-langevin", "plain Euler-Maruyama in log x: ADLS at chi = r = 1", adls),
        Sampler("sign-agnostic", "plain Euler-Maruyama in x: ASAMS at chi = r = 1", asams),
        Sampler("pf-euler", "probability flow, Euler's method", euler, 1, stochastic=False),
        Sampler(
            "pf-heun",
            "probability flow, Heun's method",
            heun,
            order=2,
            stochastic=False,
            evaluations=2,
        ),
    ],
)
