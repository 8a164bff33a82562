"""One configuration of a sampler: every knob of the paper, checked against the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from ablate import grids
from ablate.grids import Level
from ablate.inits import INITS
from ablate.processes import GBM, VEGBM, Process
from ablate.samplers import ANNEALED, SAMPLERS, Sampler

SCHEDULE_KNOBS = {"constant": {"sigma"}, "ve": {"sigma_min", "sigma_max"}}
GRIDS_WITH_FLOOR = {"geometric", "karras"}
DEFAULT_FLOOR = 0.01
"""Lowest level of such a grid: noise of 0.01 in log x is 1 % of a pixel's value in [1, 2]."""


def listens(knob: str, chosen: Mapping[str, Any]) -> bool:
    """Whether `knob` has a meaning given the sampler, schedule and grid chosen so far."""
    if knob in ANNEALED and chosen.get("sampler") in SAMPLERS:
        return knob in SAMPLERS[chosen["sampler"]].knobs
    if any(knob in knobs for knobs in SCHEDULE_KNOBS.values()):
        return knob in SCHEDULE_KNOBS.get(chosen.get("schedule", "constant"), {knob})
    if knob == "s_min":
        return chosen.get("grid", "geometric") in GRIDS_WITH_FLOOR
    if knob == "cap":
        return bool(chosen.get("grid", "geometric") == "geometric")
    return True


class Settings(BaseModel):
    """A complete configuration. Knobs that do not apply stay None."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
            raise ValueError(f"sampler {self.sampler!r} is unknown; known: {', '.join(SAMPLERS)}")
        if self.init not in INITS:
            raise ValueError(f"init {self.init!r} is unknown; known: {', '.join(INITS)}")
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
        s_max, lowest = self.noise_range()
        if not lowest < s_max:
            raise ValueError(f"s_min = {lowest:g} is not below the start's noise level {s_max:.4g}")
        return self

    @property
    def process(self) -> Process:
        if self.schedule == "ve":
            assert self.sigma_min is not None
            assert self.sigma_max is not None
            return VEGBM(self.sigma_min, self.sigma_max)
        assert self.sigma is not None
        return GBM(self.sigma)

    @property
    def kernel(self) -> Sampler:
        return SAMPLERS[self.sampler]

    @property
    def relative_step(self) -> float:
        """r = L delta N."""
        if self.delta is not None:
            return (self.L or 1) * self.delta * self.levels
        return self.r if self.r is not None else 1.0

    @property
    def nfe(self) -> int:
        return self.kernel.nfe(self.levels, self.L or 1, self.n or 0)

    def noise_levels(self) -> Tensor:
        """The grid, [N], ending at 0."""
        if self.grid == "uniform":
            return grids.uniform(self.process, self.levels)
        floor = DEFAULT_FLOOR if self.s_min is None else self.s_min
        if self.grid == "geometric":
            return grids.geometric(self.process, self.levels, floor, self.cap)
        return grids.karras(self.process, self.levels, floor)

    def noise_range(self) -> tuple[float, float]:
        """(highest, lowest) level that the network is asked for."""
        grid = self.noise_levels()
        return float(grid[0]), float(grid[-2])

    def plan(self) -> list[Level]:
        return grids.plan(
            self.process,
            self.noise_levels(),
            chi=1.0 if self.chi is None else self.chi,
            r=self.relative_step,
            L=self.L or 1,
            n=self.n or 0,
        )

    def knobs(self) -> dict[str, str | int | float]:
        """What applies, with the steps spelt both ways where there are any: as logged."""
        chosen = self.model_dump(exclude_none=True)
        if "r" in self.kernel.knobs:
            chosen["r"] = self.relative_step
            chosen["delta"] = self.relative_step / ((self.L or 1) * self.levels)
        return chosen


KNOBS = tuple(Settings.model_fields)
