"""Names of trials' runs: which knobs a study varies, and their values in short."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ablate.results import Value
from ablate.tracking.vocabulary import Knobs

SYMBOLS = {"chi": "χ", "sigma": "σ", "delta": "δ", "mu": "μ", "kappa": "κ", "rho": "ρ"}
"""Letters of the paper that a name abbreviates knobs to."""

RECORDED = {"annealing": "chi", "left": "n"}
"""Coordinates of a search -> the knob that is recorded in their place."""

BARE = frozenset({"sampler", "init", "schedule", "integrator", "grid"})
"""Knobs whose values speak for themselves."""


def varied(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The knobs that a resolved study varies, as they are recorded; words come first."""
    rows: Sequence[Mapping[str, Value]] = spec.get("rows", ())
    axes = [knob for knob, domain in spec.get("search", {}).items() if _several(domain)]
    axes += [
        knob
        for knob in dict.fromkeys(knob for row in rows for knob in row)
        if len({row.get(knob) for row in rows}) > 1
    ]
    recorded = dict.fromkeys(RECORDED.get(knob, knob) for knob in axes)
    return tuple(sorted(recorded, key=lambda knob: knob not in BARE))  # keeps the order otherwise


def trial_name(
    number: int, knobs: Knobs, varied: Sequence[str], confirms: str | None = None
) -> str:
    """The name of a trial's run, such as `#3 class-gaussian χ.9955 ρ.95`."""
    again = [] if confirms is None else [f"again #{confirms}"]
    values = [_short(knob, knobs[knob]) for knob in varied if knob in knobs]
    return " ".join([f"#{number}", *again, *values])


def _several(domain: Mapping[str, Any]) -> bool:
    """Whether a domain has more than one value."""
    choices = domain.get("choices")
    return choices is None or len(choices) > 1


def _short(knob: str, value: Value) -> str:
    """A knob with its value: χ.9955, n2, levels 12; a word alone where it says enough."""
    if isinstance(value, str) and knob in BARE:
        return value
    name = SYMBOLS.get(knob, knob.replace("_", " "))
    if isinstance(value, str) or len(name) > 1:
        return f"{name} {value if isinstance(value, str) else _digits(value)}"
    return name + _digits(value)


def _digits(value: float) -> str:
    """Three significant digits; near 1, two of the distance from 1. No zero before the point."""
    if 0.9 < value < 1:
        text = f"{value:.{1 - math.floor(math.log10(1 - value))}f}".rstrip("0")
    else:
        text = f"{value:.3g}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
