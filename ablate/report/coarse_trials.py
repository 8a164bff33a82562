"""StudyResults -> the trials whose grids are too coarse for their literal steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablate.core.coarseness import REMEDY
from ablate.report.blocks import Row, Table, numbers
from ablate.report.columns import knob_columns, trial_cells
from ablate.report.knobs import distinguishing
from ablate.results import StudyResults


def too_coarse(results: StudyResults) -> str | None:
    """A warning that names the trials; None if there are none."""
    found = [(t, t.coarseness) for t in results.trials if t.coarseness and t.coarseness.warns]
    if not found:
        return None
    trial, worst = max(found, key=lambda each: abs(math.log(each[1].ratio)))
    low, high = worst.band
    which = ranges(sorted({each.number for each, _ in found}))
    return (
        f"the grid is too coarse for the literal steps of {which}: in directions in which the data"
        f" hardly vary, their noise has less than {low:g} or more than {high:g} times the variance"
        f" that it has in the limit of small steps (trial {trial.number}: {worst.ratio:.3g} at"
        f" s = {worst.s:.2g}). They show the grid's error beside the effect of their knobs;"
        f" {REMEDY}."
    )


def ranges(values: Sequence[int]) -> str:
    """trials 0 to 3, 7: rising numbers, with three or more in a row as a range."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"{'trial' if len(values) == 1 else 'trials'} {', '.join(parts)}"


def coarse_trials(results: StudyResults) -> Table:
    """The trials that the warning is about, and how far their noise is off."""
    knobs = distinguishing(results)
    header = [
        numbers("trial"),
        *knob_columns(results, knobs),
        numbers("noise_ratio", "noise ratio"),
    ]
    header += [
        numbers("s", "at s"),
        numbers("outside", "levels outside"),
        numbers("levels_checked", "of"),
    ]
    rows: list[Row] = [
        (t.number, *trial_cells(results, t, knobs, []), *t.coarseness[:4])
        for t in results.trials
        if t.coarseness and t.coarseness.warns
    ]
    caption = (
        "Trials whose grid is too coarse for their literal steps. Noise ratio: the variance of the"
        " noise over its variance in the limit of small steps, where it is furthest from 1."
    )
    return Table("coarse", caption, header, rows)
