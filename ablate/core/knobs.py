"""Knobs that only some samplers or initialisations have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Knob:
    """A knob of one sampler or initialisation: a keyword argument of its function.

    default: the value where none is chosen; None if the knob is then off.
    """

    name: str
    about: str
    low: float
    high: float
    default: float | None
    whole: bool = False

    def check(self, value: object) -> None:
        """Raise a ValueError unless the value is a number within the range."""
        number = isinstance(value, int if self.whole else int | float)
        if not number or isinstance(value, bool) or not self.low <= value <= self.high:  # type: ignore[operator]
            kind = "a whole number" if self.whole else "a number"
            raise ValueError(f"{self.name} = {value!r} is not {kind} in [{self.low}, {self.high}]")


def values_of(knobs: Iterable[Knob], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every knob: the chosen one, or its default."""
    return {knob.name: chosen.get(knob.name, knob.default) for knob in knobs}
