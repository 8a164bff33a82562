"""What the values of a knob buy by one metric and cost by another: fidelity and diversity."""

from __future__ import annotations

from ablate.report.answers.contrast import declared
from ablate.report.answers.wording import at
from ablate.report.blocks import Block, Figure
from ablate.report.knobs import knob_values
from ablate.report.names import estimate, knob_name, metric_label, metric_name
from ablate.report.ranking import contenders
from ablate.report.shapes import Dot, Scatter, axis, axis_of
from ablate.results import StudyResults


def blocks(results: StudyResults) -> list[Block]:
    """The figure, if the study asks for two metrics over a knob with several values."""
    wanted = declared(results)
    if wanted is None or wanted.kind != "metrics":
        return []
    (up, across), (knob,) = wanted.metrics, wanted.knobs
    data = exchange(results, up, across, knob)
    if data is None:
        return []
    names = [metric_name(results, name) for name in (up, across, results.objectives[0].metric)]
    caption = (
        f"{names[0][0].upper()}{names[0][1:]} against {names[1]} of every complete configuration,"
        f" by its {knob_name(knob)}; bars: 95 % intervals of {names[0]}; ringed: the best by"
        f" {names[2]}."
    )
    return [Figure("exchange", caption, data)]


def exchange(results: StudyResults, up: str, across: str, knob: str) -> Scatter | None:
    """A dot for each trial that has both metrics, coloured by the knob."""
    field = contenders(results)
    having = [t for t in field if knob in t.params and {up, across} <= t.metrics.keys()]
    if len(knob_values(having, knob)) < 2:
        return None
    dots = [
        Dot(t.number, at(knob, t.params[knob]), t.metrics[across], y, t is field[0])
        for t in having
        if (y := estimate(t, up)) is not None
    ]
    upwards = axis_of(metric_label(results, up), (dot.y for dot in dots))
    sideways = axis(metric_label(results, across), (dot.x for dot in dots))
    return Scatter(sideways, upwards, dots, [], [])
