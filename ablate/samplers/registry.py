"""The registry of samplers. To add one, write a kernel and add a record here.

Importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ablate.core.registry import Registry
from ablate.samplers.adls import adls, adls_consistent
from ablate.samplers.asams import asams, asams_as_printed, asams_consistent
from ablate.samplers.kernel import Kernel, State
from ablate.samplers.ode import euler, heun

ANNEALED = frozenset({"chi", "L", "r", "delta", "n"})
"""Knobs of annealed samplers: they decide the plan of levels that a kernel runs down."""


@dataclass(frozen=True)
class Knob:
    """A knob that only one sampler has: a keyword argument of its step."""

    name: str
    about: str
    low: float
    high: float
    default: float
    whole: bool = False

    def check(self, value: object) -> None:
        """Raise a ValueError unless the value is a number within the range."""
        number = isinstance(value, int if self.whole else int | float)
        if not number or isinstance(value, bool) or not self.low <= value <= self.high:  # type: ignore[operator]
            kind = "a whole number" if self.whole else "a number"
            raise ValueError(f"{self.name} = {value!r} is not {kind} in [{self.low}, {self.high}]")


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

    def nfe(self, N: int, L: int = 1, n: int = 0) -> int:
        """Network evaluations of a run on N levels: L (N - 1) + n for the paper's samplers."""
        return self.evaluations * L * (N - 2) + self.at_zero * L + n

    def own_values(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The values of its own knobs, with defaults where none is chosen."""
        return {knob.name: chosen.get(knob.name, knob.default) for knob in self.own}

    def kernel(self, chosen: Mapping[str, Any] | None = None) -> Kernel:
        """Its step with its own knobs set."""
        own = self.own_values(chosen or {})
        return partial(self.step, **own) if own else self.step

    def first_memory(
        self, chosen: Mapping[str, Any] | None = None
    ) -> Callable[[State], Any] | None:
        """Its `init` with its own knobs set, as the driver takes it; None if it has no memory."""
        return partial(self.init, **self.own_values(chosen or {})) if self.init else None


def _annealed(name: str, step: Kernel, about: str, order: int = 1) -> Sampler:
    return Sampler(name, about, step, order, knobs=ANNEALED)


SAMPLERS: Registry[Sampler] = Registry(
    "sampler",
    "ablate.samplers",
    Sampler,
    [
        _annealed("adls", adls, "annealed Dale-Langevin, sign-preserving"),
        _annealed("asams", asams, "annealed sign-agnostic"),
        _annealed("asams-as-printed", asams_as_printed, "Algorithm 2 with its misprint", order=0),
        _annealed("adls-consistent", adls_consistent, "ADLS with drift to match any kappa"),
        _annealed("asams-consistent", asams_consistent, "ASAMS with drift to match any kappa"),
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
