"""The objective over annealing and step, with the step that theory pairs with each annealing."""

from __future__ import annotations

import math
from functools import cache

from ablate.report.blocks import Block, Figure
from ablate.report.evidence.search import values
from ablate.report.figures import objective_label
from ablate.report.names import metric_name
from ablate.report.ranking import contenders, pruned_trials
from ablate.report.shapes import LawMap, MapDot, axis_of
from ablate.results import StudyResults

LEVELS = 1000
"""N of the paper's runs, in whose units chi is given."""

FEWEST = 4
"""Places on the map that its dots take, at least: fewer show no more than a table."""

LINE = 40
"""Points of the law's line."""


def blocks(results: StudyResults) -> list[Block]:
    """The map, if trials have several values of both chi and r."""
    data = law_map(results)
    if data is None:
        return []
    name = metric_name(results, results.objectives[0].metric)
    crosses = "; crosses: pruned, at the samples they had" * any(dot.pruned for dot in data.dots)
    none = " At the left edge: no annealing." * any(dot.x <= data.left for dot in data.dots)
    caption = (
        f"{name} of each trial over its annealing 1 − χ and its relative step r, the other knobs as"
        f" they came; ringed: the best{crosses}. The line is the law: the mean of 1/(2 − κ²) over"
        f" log-levels.{none}"
    )
    return [Figure("law", caption, data)]


def law_map(results: StudyResults) -> LawMap | None:
    """1 - chi, r and the objective of every trial that has both as numbers."""
    found = values(results)
    having = [
        (trial, 1 - float(trial.params["chi"]), step)
        for trial in results.trials
        if trial.number in found
        and "chi" in trial.params
        and (step := step_of(trial.params)) is not None
    ]
    spread = {round(each[1], 9) for each in having}, {round(each[2], 9) for each in having}
    apart = {(round(x, 9), round(r, 9)) for _, x, r in having}
    if any(len(each) < 2 for each in spread) or len(apart) < FEWEST:
        return None
    sign = results.objectives[0].sign  # the best come last and lie on top
    having.sort(key=lambda each: -sign * found[each[0].number].value)
    positive = [each[1] for each in having if each[1] > 0]
    left = min(positive) / 3 if positive else 1e-5
    pruned = {trial.number for trial, _ in pruned_trials(results)}
    best = contenders(results)[0].number if contenders(results) else None
    dots = [
        MapDot(
            t.number, max(x, left), r, found[t.number].value, t.number == best, t.number in pruned
        )
        for t, x, r in having
    ]
    ends = math.log(left), math.log(max([*positive, 3 * left]))
    places = [math.exp(ends[0] + (ends[1] - ends[0]) * k / LINE) for k in range(LINE + 1)]
    return LawMap(
        axis_of(objective_label(results), (found[t.number] for t, _, _ in having)),
        dots,
        [(x, law(1 - x)) for x in places],
        left,
    )


def step_of(params: dict[str, str | int | float]) -> float | None:
    """A trial's r; that of the law where it says so."""
    r = params.get("r")
    if r == "law":
        return law(float(params["chi"]))
    return None if r is None or isinstance(r, str) else float(r)


@cache
def law(chi: float, levels: int = LEVELS) -> float:
    """The mean of 1/(2 - kappa²) over log-levels, with kappa = chi^(1000 (t_first - t)).

    Levels are sigma √t for t = (N-1)/N … 1/N; each step counts with the kappa that it begins with.
    """
    first = (levels - 1) / levels
    total = 0.0
    for k in range(levels - 1, 1, -1):
        kappa = chi ** (LEVELS * (first - k / levels))
        total += math.log(k / (k - 1)) / (2 - kappa**2)
    return total / math.log(levels - 1)
