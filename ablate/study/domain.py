"""Domains: the values that a searched knob may take."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _not_bool(value: Any) -> Any:
    """Refuse booleans, which pydantic would read as 0 and 1."""
    if isinstance(value, bool):
        raise ValueError("must be a word or a number")
    return value


Scalar = Annotated[str | int | float, BeforeValidator(_not_bool)]
FINITE_STEPS = 10_000
"""Most values of a grid's axis; a longer one is a mistake."""


class Model(BaseModel):
    """A frozen model for which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def short_form(value: Any) -> Any:
    """`[a, b]` is short for `{ choices = [a, b] }`."""
    return {"choices": value} if isinstance(value, list) else value


class Domain(Model):
    """The values that a searched knob may take: choices, or a range that includes both ends."""

    choices: tuple[Scalar, ...] | None = None
    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: int | float | None = None
    when: dict[str, tuple[Scalar, ...]] = Field(
        default_factory=dict
    )  # other knob -> values that make this one apply

    @model_validator(mode="before")
    @classmethod
    def _when_is_a_list(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("when"), dict):
            when = {k: v if isinstance(v, list | tuple) else [v] for k, v in data["when"].items()}
            return {**data, "when": when}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Domain:
        ranged = self.low is not None or self.high is not None
        if (self.choices is None) == (not ranged):
            raise ValueError("give either choices or low and high")
        if self.choices is not None:
            if not self.choices:
                raise ValueError("choices is empty")
            if len(set(self.choices)) < len(self.choices):
                raise ValueError(f"choices repeat: {list(self.choices)}")
            if self.log or self.step is not None:
                raise ValueError("log and step belong to a range, not to choices")
            return self
        if self.low is None or self.high is None:
            raise ValueError("a range needs both low and high")
        self._check_range(self.low, self.high)
        return self

    def _check_range(self, low: float, high: float) -> None:
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"low = {low} and high = {high} must be finite")
        if not low < high:
            raise ValueError(f"empty range: low = {low} is not below high = {high}")
        if self.log and (low <= 0 or self.step is not None):
            raise ValueError(f"a log range needs low > 0 (here {low}) and takes no step")
        if self.step is not None and not 0 < self.step <= high - low:
            raise ValueError(f"step = {self.step} must be positive and fit into the range")
        if self.whole and not isinstance(self.step, int | None):
            raise ValueError(f"step = {self.step} in a range of whole numbers")

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def ends(self) -> tuple[Scalar, ...]:
        """The choices, or the two ends: if these are valid, every value is."""
        return self.choices or (self.low, self.high)  # type: ignore[return-value]

    def contains(self, value: Scalar) -> bool:
        if self.choices is not None:
            return value in self.choices
        if isinstance(value, str) or not self.low <= value <= self.high:  # type: ignore[operator]
            return False
        steps = 0.0 if self.spacing is None else (value - self.low) / self.spacing  # type: ignore[operator]
        return abs(steps - round(steps)) < 1e-9

    @property
    def spacing(self) -> int | float | None:
        """The distance between neighbouring values of a range; None if it is continuous."""
        return self.step or (1 if self.whole else None)

    def count(self) -> int:
        """The number of values of a range with spacing."""
        assert self.low is not None
        assert self.high is not None
        assert self.spacing is not None
        return math.floor((self.high - self.low) / self.spacing + 1e-9) + 1

    def values(self) -> tuple[Scalar, ...] | None:
        """All values, or None if there are too many to list."""
        if self.choices is not None:
            return self.choices
        if self.spacing is None or self.count() > FINITE_STEPS:
            return None
        return tuple(self.at(i) for i in range(self.count()))

    def at(self, place: int) -> int | float:
        """The value at `place` spacings from the low end, never past the high end by rounding."""
        assert self.low is not None
        assert self.high is not None
        assert self.spacing is not None
        return min(self.low + place * self.spacing, self.high)
