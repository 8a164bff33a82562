"""The registry of samplers. To add one, write a kernel and add a record here.

Importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ablate.core.knobs import Knob, values_of
from ablate.core.registry import Registry
from ablate.samplers import climbing, laws
from ablate.samplers.adams_bashforth import deis, ipndm
from ablate.samplers.adls import adls, adls_consistent
from ablate.samplers.asams import asams, asams_as_printed, asams_consistent
from ablate.samplers.dpm import dpm_2m, dpm_3m
from ablate.samplers.kernel import Kernel, State
from ablate.samplers.laws import Law
from ablate.samplers.ode import euler, heun
from ablate.samplers.unipc import unipc

if TYPE_CHECKING:
    from torch import Tensor

ANNEALED = frozenset({"chi", "L", "r", "delta", "n"})
"""Knobs of annealed samplers: they decide the plan of levels that a kernel runs down."""


@dataclass(frozen=True)
class Path:
    """Levels that a sampler visits besides those of its grid. A step to a higher level adds noise
    and costs no evaluation.

    levels: `(grid, **own) -> levels`, in the order in which they are visited; both end on 0.
    added: `(N, **own) -> steps down` that a grid of N levels does not have; None if there are none.
    check: `(s_max, s_min, **own)` raises a ValueError if its knobs do not fit the grid's ends.
    """

    levels: Callable[..., list[float]]
    added: Callable[..., int] | None = None
    check: Callable[..., None] | None = None


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
    path: where it goes, if not straight down its grid.
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
    path: Path | None = None

    def nfe(self, N: int, L: int = 1, n: int = 0, chosen: Mapping[str, Any] | None = None) -> int:
        """Network evaluations of a run on N levels: L (N - 1) + n for the paper's samplers."""
        steps = L * (N - 2)
        if self.path and self.path.added:
            steps += self.path.added(N, **self.own_values(chosen or {}))
        return self.evaluations * steps + self.at_zero * L + n

    def visited(self, grid: Tensor, chosen: Mapping[str, Any] | None = None) -> Tensor:
        """The levels that it visits on a grid, [N] -> [M], both ending at 0."""
        if self.path is None:
            return grid
        return grid.new_tensor(self.path.levels(grid.tolist(), **self.own_values(chosen or {})))

    def check_ends(self, s_max: float, s_min: float, chosen: Mapping[str, Any]) -> None:
        """Raise a ValueError if its own knobs do not fit a grid from s_max to s_min."""
        if self.path and self.path.check:
            self.path.check(s_max, s_min, **self.own_values(chosen))

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


def _multistep(
    name: str, step: Callable[..., Any], about: str, *, order: int, own: tuple[Knob, ...] = ()
) -> Sampler:
    """A solver of the probability flow with one evaluation a level."""
    return Sampler(name, f"probability flow, {about}", step, order, stochastic=False, own=own)


def _memory(about: str, low: int, high: int, default: int) -> tuple[Knob, ...]:
    return (Knob("memory", about, low, high, default, whole=True),)


EVALUATIONS = "network evaluations that a multistep solver combines, this level's and those before"

CHURN = (
    Knob("churn", "noise added again in all, as EDM's S_churn; 0 adds none", 0, 200, 1),
    Knob("churn_low", "lowest noise level at which noise is added", 0, 100, 0),
    Knob("churn_high", "highest noise level at which noise is added", 0, 100, 100),
    Knob("churn_noise", "factor on the noise added; other than 1 is biased", 0.9, 1.1, 1),
)
RESTART = (
    Knob("restart_low", "noise level at which a restart begins and ends", 1e-3, 100, 0.1),
    Knob("restart_high", "noise level that a restart goes back up to", 1e-3, 100, 0.3),
    Knob("restart_times", "number of restarts", 0, 100, 1, whole=True),
    Knob("restart_share", "steps of each restart, as a share of the grid's", 0.0, 1, 0.25),
)


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
        _multistep("dpm++2m", dpm_2m, "DPM-Solver++ of second order", order=2),
        _multistep("dpm++3m", dpm_3m, "DPM-Solver++ of third order", order=2),
        _multistep(
            "ipndm",
            ipndm,
            "iPNDM: Adams-Bashforth with the weights of even steps",
            order=2,
            own=_memory(EVALUATIONS, 1, 4, 4),
        ),
        _multistep(
            "deis",
            deis,
            "tAB-DEIS: Adams-Bashforth with the weights of the actual steps",
            order=2,
            own=_memory(EVALUATIONS, 1, 4, 3),
        ),
        _multistep(
            "unipc",
            unipc,
            "UniPC: predictor and corrector in one evaluation",
            order=3,
            own=_memory(EVALUATIONS, 1, 3, 3),
        ),
        Sampler(
            "heun-churn",
            "Heun's method with noise added before each step, as in EDM",
            climbing.heun_churn,
            order=2,
            evaluations=2,
            own=CHURN,
            path=Path(climbing.churned),
        ),
        Sampler(
            "restart",
            "Heun's method that goes back up to a higher noise level",
            climbing.restart,
            order=2,
            evaluations=2,
            own=RESTART,
            path=Path(climbing.restarted, climbing.steps_of_restarts, climbing.check_restarts),
        ),
    ],
)
