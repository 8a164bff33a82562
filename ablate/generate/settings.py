"""One configuration of a sampler: every knob, checked against the others.

Importing this module imports no torch, so that study files are read quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ablate.diffusion.capped import check_cap, even_steps
from ablate.diffusion.inits import INITS
from ablate.diffusion.processes import GBM, VEGBM, Process, level
from ablate.samplers.registry import ANNEALED, SAMPLERS, Sampler

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.diffusion.grids import Level

SCHEDULE_KNOBS = {"constant": {"sigma"}, "ve": {"sigma_min", "sigma_max"}}
GRIDS_WITH_FLOOR = {"geometric", "karras"}
DEFAULT_FLOOR = 0.01
"""Lowest level of such a grid: noise of 0.01 in log x is 1 % of a pixel's value in [1, 2]."""


def listens(knob: str, chosen: Mapping[str, Any]) -> bool:
    """Whether `knob` has a meaning given the sampler, schedule and grid chosen so far."""
    sampler = str(chosen.get("sampler"))
    if sampler in SAMPLERS:
        if knob in ANNEALED:
            return knob in SAMPLERS[sampler].knobs
        if knob not in Settings.model_fields:
            return any(knob == own.name for own in SAMPLERS[sampler].own)
    if any(knob in knobs for knobs in SCHEDULE_KNOBS.values()):
        return knob in SCHEDULE_KNOBS.get(chosen.get("schedule", "constant"), {knob})
    if knob == "s_min":
        return chosen.get("grid", "geometric") in GRIDS_WITH_FLOOR
    if knob == "cap":
        return bool(chosen.get("grid", "geometric") == "geometric")
    return True


class Settings(BaseModel):
    """A complete configuration. Knobs that do not apply stay None.

    A knob that is no field here must be one of the sampler's own.
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
    r: float | None = Field(None, gt=0)
    delta: float | None = Field(None, gt=0)
    n: int | None = Field(None, ge=0)
    grid: Literal["uniform", "geometric", "karras"] = "geometric"
    levels: int = Field(50, ge=3, le=100_000)
    s_min: float | None = Field(None, gt=0)
    cap: float | None = Field(None, gt=0)  # on the variance that a step removes

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        if self.sampler not in SAMPLERS:
            raise ValueError(SAMPLERS.unknown(self.sampler))
        if self.init not in INITS:
            raise ValueError(INITS.unknown(self.init))
        self._check_own_knobs()
        chosen = self.model_dump(exclude_none=True)
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
        self._check_levels()
        return self

    def _check_own_knobs(self) -> None:
        own = {knob.name: knob for knob in self.kind.own}
        for name, value in (self.__pydantic_extra__ or {}).items():
            if name not in own:
                raise ValueError(f"{name}: sampler {self.sampler!r} has no such knob")
            own[name].check(value)

    def _check_levels(self) -> None:
        s_max, lowest = self.noise_range()
        if not lowest < s_max:
            raise ValueError(f"s_min = {lowest:g} is not below the start's noise level {s_max:.4g}")
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
    def relative_step(self) -> float:
        """r = L delta N."""
        if self.delta is not None:
            return (self.L or 1) * self.delta * self.levels
        return self.r if self.r is not None else 1.0

    @property
    def nfe(self) -> int:
        """Network evaluations a sample."""
        return self.kind.nfe(self.levels, self.L or 1, self.n or 0)

    def noise_range(self) -> tuple[float, float]:
        """(highest, lowest) level that the network is asked for."""
        if self.grid == "uniform":
            first, last = 1 - 1 / self.levels, 1 / self.levels
            return level(self.process, first), level(self.process, last)
        return level(self.process, 1.0), self._floor

    @property
    def _floor(self) -> float:
        return DEFAULT_FLOOR if self.s_min is None else self.s_min

    def noise_levels(self) -> Tensor:
        """The grid, [N], ending at 0."""
        from ablate.diffusion import grids

        if self.grid == "uniform":
            return grids.uniform(self.process, self.levels)
        if self.grid == "geometric":
            return grids.geometric(self.process, self.levels, self._floor, self.cap)
        return grids.karras(self.process, self.levels, self._floor)

    def plan(self) -> list[Level]:
        """Every step that the sampler takes."""
        from ablate.diffusion import grids

        return grids.plan(
            self.process,
            self.noise_levels(),
            chi=1.0 if self.chi is None else self.chi,
            r=self.relative_step,
            L=self.L or 1,
            n=self.n or 0,
        )

    def knobs(self) -> dict[str, str | int | float]:
        """The knobs that apply, as logged; steps both as r and as delta where there are any."""
        chosen = self.model_dump(exclude_none=True) | self.own_knobs
        if "r" in self.kind.knobs:
            chosen["r"] = self.relative_step
            chosen["delta"] = self.relative_step / ((self.L or 1) * self.levels)
        return chosen


def known_knobs() -> tuple[str, ...]:
    """Every knob that a study may set: the shared ones and those that single samplers own."""
    own = (knob.name for sampler in SAMPLERS.values() for knob in sampler.own)
    return (*Settings.model_fields, *dict.fromkeys(own))
