"""One configuration of a sampler: every knob, checked against the others.

Importing this module imports no torch, so that study files are read quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from ablate.core.knobs import values_of
from ablate.diffusion.capped import check_cap, even_steps
from ablate.diffusion.inits import INITS
from ablate.diffusion.processes import GBM, VEGBM, Process, level
from ablate.generate.afford import Spending, spend, with_levels
from ablate.generate.applicability import NO_LABEL, SCHEDULE_KNOBS, listens
from ablate.generate.coordinates import PAPER_LEVELS, in_paper_knobs, logged_rho
from ablate.generate.guidance_knobs import GuidanceKnobs
from ablate.samplers.registry import SAMPLERS, Sampler

if TYPE_CHECKING:
    from ablate.diffusion.grids import Step

DEFAULT_FLOOR = 0.01
"""Lowest level of such a grid: noise of 0.01 in log x is 1 % of a pixel's value in [1, 2]."""

TEACHER_LEVELS = 61
"""Levels that the grid `gits` chooses from, as in its paper."""


class Settings(GuidanceKnobs):
    """A complete configuration. Knobs that do not apply stay None.

    A knob that is no field here must be one of the sampler's or the initialisation's own.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    sampler: str
    init: str
    schedule: Literal["constant", "ve"] = "constant"
    sigma: float | None = Field(None, gt=0)
    sigma_min: float | None = Field(None, gt=0)
    sigma_max: float | None = Field(None, gt=0)
    chi: float | None = Field(None, gt=0, le=1)
    L: int | None = Field(None, ge=1)
    r: Annotated[float, Field(gt=0)] | Literal["law"] | None = None
    delta: float | None = Field(None, gt=0)
    n: int | None = Field(None, ge=0)
    integrator: Literal["literal", "exponential"] | None = None
    order: int | None = Field(None, ge=1, le=2)
    N: int | None = Field(None, ge=4, le=100_000)  # levels of the paper's grid
    grid: Literal["uniform", "geometric", "karras", "uniform-t", "gits"] = "geometric"
    levels: int = Field(50, ge=3, le=100_000)
    cost: int | None = Field(None, ge=1, le=100_000)  # decides levels
    s_min: float | None = Field(None, gt=0)
    cap: float | None = Field(None, gt=0)  # on the variance that a step removes
    training: tuple[tuple[str, str | int | float], ...] = ()  # changes to the training recipe

    @model_validator(mode="before")
    @classmethod
    def _afford(cls, chosen: Any) -> Any:
        return with_levels(in_paper_knobs(chosen)) if isinstance(chosen, Mapping) else chosen

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        if self.sampler not in SAMPLERS:
            raise ValueError(SAMPLERS.unknown(self.sampler))
        if self.init not in INITS:
            raise ValueError(INITS.unknown(self.init))
        self._check_own_knobs()
        chosen = self.model_dump(exclude_none=True, exclude_unset=True)
        for knob in chosen:
            if not listens(knob, chosen):
                raise ValueError(
                    f"{knob} = {chosen[knob]} has no meaning with sampler {self.sampler!r},"
                    f" schedule {self.schedule!r}, grid {self.grid!r}"
                )
        for knob in SCHEDULE_KNOBS[self.schedule]:
            if knob not in chosen:
                raise ValueError(f"{knob} is missing; schedule {self.schedule!r} needs it")
        if self.r is not None and self.delta is not None:
            raise ValueError(f"r = {self.r} and delta = {self.delta}: give one, r = L delta N")
        if self.schedule == "ve" and not self.sigma_min < self.sigma_max:  # type: ignore[operator]
            raise ValueError(
                f"sigma_min = {self.sigma_min} is not below sigma_max = {self.sigma_max}"
            )
        if self.delta is not None and self.paper_levels is None:
            raise ValueError(
                f"delta = {self.delta} is a step of the paper's uniform grid, not of grid"
                f" {self.grid!r}; give r = L delta N"
            )
        self._check_levels()
        return self

    def _check_own_knobs(self) -> None:
        own = {knob.name: knob for knob in (*self.kind.own, *INITS[self.init].own)}
        for name, value in (self.__pydantic_extra__ or {}).items():
            if (name, value) == ("label", NO_LABEL):
                continue
            if name not in own:
                raise ValueError(
                    f"{name}: sampler {self.sampler!r} has no such knob, nor has init {self.init!r}"
                )
            own[name].check(value)

    def _check_levels(self) -> None:
        (s_max, lowest), N = self.noise_range(), self.N or PAPER_LEVELS
        if self.exponential and self.spending.walk + self.spending.split > N - 1:
            raise ValueError(f"levels = {self.levels} exceeds N = {N}")
        if not lowest < s_max:
            raise ValueError(f"s_min = {lowest:g} is not below the start's noise level {s_max:.4g}")
        if self.exponential and self.grid in {"uniform-t", "gits"}:
            raise ValueError(f"grid = {self.grid} has no meaning with integrator 'exponential'")
        if self.grid == "gits" and self.levels > TEACHER_LEVELS + 1:
            raise ValueError(
                f"levels = {self.levels}: grid 'gits' has {TEACHER_LEVELS + 1} at most"
            )
        self.kind.check_ends(s_max, lowest, self.own_knobs)
        if self.cap is not None:
            check_cap(self.cap, lowest)
            even_steps(s_max**2, lowest**2, self.levels - 2, self.cap)

    @property
    def process(self) -> Process:
        if self.schedule == "ve":
            assert self.sigma_min is not None
            assert self.sigma_max is not None
            return VEGBM(self.sigma_min, self.sigma_max)
        assert self.sigma is not None
        return GBM(self.sigma)

    @property
    def kind(self) -> Sampler:
        """What the registry knows of the sampler."""
        return SAMPLERS[self.sampler]

    @property
    def own_knobs(self) -> dict[str, Any]:
        """The sampler's own knobs, defaults filled in."""
        return self.kind.own_values(self.__pydantic_extra__ or {})

    @property
    def start_knobs(self) -> dict[str, Any]:
        """The initialisation's own knobs, defaults filled in."""
        chosen = {k: v for k, v in (self.__pydantic_extra__ or {}).items() if v != NO_LABEL}
        return values_of(INITS[self.init].own, chosen)

    @property
    def unlabelled(self) -> bool:
        """Whether a network that knows classes is told none."""
        return (self.__pydantic_extra__ or {}).get("label") == NO_LABEL

    def told(self, classes: int) -> str:
        """What a network with so many classes is told of each sample, in words."""
        if not classes:
            return "nothing: the network knows no classes"
        if self.unlabelled:
            return "no class"
        label = self.start_knobs.get("label")
        return f"class {label}" if label is not None else f"its start's class, 0 to {classes - 1}"

    @property
    def exponential(self) -> bool:
        """Whether an exponential integrator stands for the literal run."""
        return self.integrator == "exponential"

    @property
    def paper_levels(self) -> int | None:
        """N of the paper's uniform grid that is walked or stood for; None on other grids."""
        if self.exponential:
            return self.N or PAPER_LEVELS
        return self.N or (self.levels if self.grid == "uniform" else None)

    @property
    def spending(self) -> Spending:
        """What an exponential integrator spends its evaluations on."""
        return spend(self.levels, self.L or 1, self.n or 0)

    @property
    def relative_step(self) -> Step:
        """r = L delta N, or "law"."""
        if self.delta is not None:
            return (self.L or 1) * self.delta * (self.paper_levels or 0)
        return self.r if self.r is not None else 1.0

    @property
    def nfe(self) -> int:
        """Network evaluations a sample, the guide's included: the most, if it has an interval."""
        each = 2 if self.guided else 1
        if self.exponential:
            return each * self.levels
        N = self.N or self.levels
        return each * self.kind.nfe(N, self.L or 1, self.n or 0, self.own_knobs)

    def noise_range(self) -> tuple[float, float]:
        """(highest, lowest) level that the network is asked for."""
        if (N := self.paper_levels) is not None:
            return level(self.process, 1 - 1 / N), level(self.process, 1 / N)
        return level(self.process, 1.0), self.floor

    @property
    def floor(self) -> float:
        """The lowest level of a grid that has one to choose."""
        return DEFAULT_FLOOR if self.s_min is None else self.s_min

    def knobs(self) -> dict[str, str | int | float]:
        """The knobs that apply, as logged; steps as r, delta and rho where there are any."""
        own = {k: v for k, v in (self.own_knobs | self.start_knobs).items() if v is not None}
        chosen = (
            self.model_dump(exclude_none=True, exclude={"training"}) | own | dict(self.training)
        )
        chosen = {k: v for k, v in chosen.items() if listens(k, chosen)}
        if self.exponential:
            chosen |= {"N": self.N or PAPER_LEVELS, "order": self.order or 2}
        if "r" in self.kind.knobs:
            chosen["r"] = r = self.relative_step
            if self.paper_levels and r != "law":
                chosen["delta"] = r / ((self.L or 1) * self.paper_levels)
            if self.kind.law and r != "law":
                chosen["rho"] = logged_rho(r, chosen)
        return chosen
