"""Checks of the contrast that a study file declares: its knobs, metrics and names are there."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ablate.core.asked import asked
from ablate.metrics.registry import METRICS, objectives


def check(
    text: str, varied: Collection[str], named: Mapping[str, int], *, ladder: bool, published: bool
) -> None:
    """ValueError if `answers` asks about something that the study does not have.

    varied: the knobs of which the study has several values; named: `confirm.named`.
    """
    if not text:
        return
    contrast = asked(text)
    where = f"answers = {text!r}"
    if contrast.kind == "steps" and not ladder:
        raise ValueError(f"{where}: only method 'ladder' has steps")
    if contrast.kind == "published" and not published:
        raise ValueError(f"{where}: the study has no published values")
    if contrast.kind == "best" and contrast.name not in named:
        have = ", ".join(map(repr, named)) or "none"
        raise ValueError(f"{where}: confirm.named has no {contrast.name!r}; it has {have}")
    for knob in contrast.knobs:
        if knob not in varied:
            raise ValueError(
                f"{where}: {knob} is not varied by the study; it varies {', '.join(sorted(varied))}"
            )
    for metric in contrast.metrics:
        if metric not in objectives():
            known = ", ".join(objectives())
            raise ValueError(f"{where}: metric {metric!r} is unknown; known: {known}")
    if contrast.kind == "cost" and METRICS[contrast.metrics[1]].measure is not None:
        raise ValueError(f"{where}: {contrast.metrics[1]} is no cost; nfe and seconds are")
