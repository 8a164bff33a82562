"""The grammar of `answers`: the contrast that a study asks about, in one line of its file.

KNOB                        the values of a knob, each at its best setting of the others
KNOB by KNOB                the same, at each value of another knob
KNOB vs KNOB                which of two knobs moves the objective
METRIC vs METRIC over KNOB  what each value of a knob buys by one metric and costs by another
METRIC per METRIC           how good for which cost, and at which cost more buys nothing
best vs NAME                the best configuration against one that `confirm.named` names
steps                       what each step of a ladder does
published                   our values beside those that others published
"""

from __future__ import annotations

import re
from typing import NamedTuple

FORMS: dict[str, str] = {
    "steps": r"steps",
    "published": r"published",
    "best": r"best vs (?P<name>.+)",
    "metrics": r"(?P<metric>\w+) vs (?P<other_metric>\w+) over (?P<knob>[\w.]+)",
    "cost": r"(?P<metric>\w+) per (?P<other_metric>\w+)",
    "by": r"(?P<knob>[\w.]+) by (?P<other_knob>[\w.]+)",
    "knobs": r"(?P<knob>[\w.]+) vs (?P<other_knob>[\w.]+)",
    "knob": r"(?P<knob>[\w.]+)",
}
"""Kind -> its form; the first that fits is the one."""

KNOWN = (
    "KNOB, KNOB by KNOB, KNOB vs KNOB, METRIC vs METRIC over KNOB, METRIC per METRIC, best vs NAME,"
    " steps, published"
)


class Asked(NamedTuple):
    """A contrast that a study asks about."""

    kind: str  # of FORMS
    knobs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    name: str = ""  # of a configuration that is measured again


def asked(text: str) -> Asked:
    """The contrast of a line; ValueError if it has none of the forms."""
    line = " ".join(text.split())
    for kind, form in FORMS.items():
        if (found := re.fullmatch(form, line)) is not None:
            parts = found.groupdict()
            knobs = tuple(parts[key] for key in ("knob", "other_knob") if key in parts)
            metrics = tuple(parts[key] for key in ("metric", "other_metric") if key in parts)
            return Asked(kind, knobs, metrics, parts.get("name", ""))
    raise ValueError(f"answers = {text!r} has none of the forms: {KNOWN}")
