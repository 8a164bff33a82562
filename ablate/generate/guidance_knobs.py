"""The knobs of guidance: which denoiser the samplers are given.

Importing this module imports no torch, so that study files are read quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

UNLABELLED, OF_BUNDLE = "unlabelled", "bundle:"
"""Guides: the same network without labels (classifier-free guidance), or another bundle's."""

GUIDE_KNOBS = ("guide", "guide_low", "guide_high")
"""Knobs that have a meaning only where there is guidance."""


def is_guided(chosen: Mapping[str, Any]) -> bool:
    """Whether the chosen knobs have a guide; weight 1 leaves it out."""
    return chosen.get("guidance") not in (None, 1)


class GuidanceKnobs(BaseModel):
    """Weight, guide and interval. Knobs that are not chosen are None."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    guidance: float | None = Field(None, ge=0, le=100)  # weight; 1: off
    guide: str | None = None  # unlabelled or bundle:NAME
    guide_low: float | None = Field(None, ge=0)
    guide_high: float | None = Field(None, gt=0)
    score_scale: float | None = Field(None, gt=0, le=10)  # factor on log_score; 1: off

    @model_validator(mode="after")
    def _guidance_agrees(self) -> GuidanceKnobs:
        if not self.guided:
            for knob in GUIDE_KNOBS:
                if (value := getattr(self, knob)) is not None:
                    raise ValueError(f"{knob} = {value} has no meaning without guidance")
        if self.guide not in (None, UNLABELLED) and self.guide_bundle in (None, ""):
            raise ValueError(f"guide = {self.guide!r}: must be {UNLABELLED!r} or '{OF_BUNDLE}NAME'")
        low, high = self.guide_low, self.guide_high
        if low is not None and high is not None and not low < high:
            raise ValueError(f"guide_low = {low} is not below guide_high = {high}")
        return self

    @property
    def guided(self) -> bool:
        """Whether there is a guide."""
        return is_guided({"guidance": self.guidance})

    @property
    def guide_bundle(self) -> str | None:
        """The name of the bundle that guides; None if the network itself does."""
        guide = self.guide or UNLABELLED
        return guide.removeprefix(OF_BUNDLE) if guide.startswith(OF_BUNDLE) else None

    def guided_at(self, s: float) -> bool:
        """Whether the guide acts at noise level s: guide_low < s ≤ guide_high."""
        high = float("inf") if self.guide_high is None else self.guide_high
        return self.guided and (self.guide_low or 0.0) < s <= high
