"""Paired differences: a forest plot against one configuration, and who beats whom.

Probability of improvement and interquartile mean have rliable's definitions (Agarwal et al. 2021),
written out here: its package needs arch, seaborn and absl, and a few lines do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from statistics import NormalDist, fmean

from ablate.core.quantiles import Z95
from ablate.report.answers.contrast import declared
from ablate.report.blocks import Block, Figure, Row, Table, numbers, probabilities
from ablate.report.figures import line_names
from ablate.report.knobs import distinguishing
from ablate.report.names import Estimate, better, configuration, metric_label, metric_name
from ablate.report.paired import Difference, Group, searched_group
from ablate.report.ranking import contenders
from ablate.report.shapes import Baseline, Dot, Ladder, axis_of
from ablate.report.standing import SEARCH, origin
from ablate.report.steps import step_names
from ablate.results import StudyResults, Trial

MOST = 16
"""Configurations in the forest plot, at most."""

FEW = 5
"""Configurations that are compared each with each."""


def blocks(results: StudyResults) -> list[Block]:
    """The forest plot, and each of the best against each; nothing for fewer than two trials."""
    group = searched_group(results)
    field = [trial for trial in contenders(results) if trial.number in group]
    if len(field) < 2:
        return []
    made: list[Block] = []
    if (data := forest(results, group, field)) is not None:
        made.append(Figure("forest", _caption(results, group, field), data))
    return [*made, beats(results, group, field[:FEW])]


def reference(results: StudyResults, field: Sequence[Trial]) -> Trial:
    """What the others are compared with: the setting that has a name, what theory predicts, the
    first of a grid; the best where the study asks what more evaluations buy."""
    wanted = declared(results)
    if wanted is not None and wanted.kind == "cost":
        return field[0]
    by_number = sorted(field, key=lambda trial: trial.number)
    known = [trial for trial in by_number if origin(results, trial) not in ("", SEARCH)]
    return next(iter(known or by_number))


def forest(results: StudyResults, group: Group, field: Sequence[Trial]) -> Ladder | None:
    """The difference of each of the best, and of the worst, from the reference, best first."""
    base = reference(results, field)
    others = [trial for trial in field if trial is not base]
    if len(others) > MOST:
        others = [*others[: MOST - 1], others[-1]]
    found = [(trial, group.difference(trial.number, base.number)) for trial in others]
    if any(each.half is None for _, each in found):
        return None
    names = line_names(results, others)
    dots = [
        Dot(
            trial.number,
            names[trial.number],
            float(line),
            Estimate(each.value, each.half),
            trial is field[0],
        )
        for line, (trial, each) in enumerate(found)
    ]
    objective = results.objectives[0]
    label = f"difference of {metric_label(results, objective.metric)} ({better(objective)})"
    nearest = min(abs(dot.y.value) + (dot.y.half or 0.0) for dot in dots)
    zero = Estimate(0.0, nearest)  # the line of no difference must have a place on the axis
    scale = axis_of(label, [zero, *(dot.y for dot in dots)])
    return Ladder(scale, dots, [Baseline("no difference", 0.0)], [])


def _caption(results: StudyResults, group: Group, field: Sequence[Trial]) -> str:
    base = reference(results, field)
    some = f" The {MOST} shown are the best and the worst." * (len(field) - 1 > MOST)
    how = group.difference(field[0].number, field[-1].number).how
    best = "it is the best" if base is field[0] else "ringed: the best"
    return (
        f"{metric_name(results, results.objectives[0].metric)} of each configuration less that of"
        f" {_named(results, base)}, as the search measured them, with 95 % intervals ({how});"
        f" {best}.{some}"
    )


def _named(results: StudyResults, base: Trial) -> str:
    """the paper's setting (trial 0, adls), the base (trial 0), trial 3 (adls)"""
    if step_names(results).get(base.number) == "base":
        return f"the base (trial {base.number})"
    what = configuration(results, base, distinguishing(results))
    name = origin(results, base)
    return f"{name} (trial {base.number}, {what})" if name else f"trial {base.number} ({what})"


def beats(results: StudyResults, group: Group, field: Sequence[Trial]) -> Table:
    """Each of the best against each: the difference, and two probabilities."""
    label = metric_name(results, results.objectives[0].metric)
    sign = results.objectives[0].sign
    header = [numbers("trial"), numbers("than"), numbers("difference", f"{label} difference")]
    header += [probabilities("probability", "probability of being better")]
    header += [numbers("improvement", "probability of improvement", 3)]
    header += [numbers("iqm", f"IQM of {label}", 3)]
    rows: list[Row] = []
    for one, other in permutations(field, 2):
        gap = group.difference(one.number, other.number)
        if sign * gap.value > 0 or (gap.value == 0 and one.number > other.number):
            continue
        own, theirs = group.values[one.number], group.values[other.number]
        row = (one.number, other.number, Estimate(gap.value, gap.half), superiority(gap, sign))
        rows.append((*row, improvement(own, theirs, sign), iqm(own)))
    caption = (
        f"The {len(field)} best of the search against each other, by what it measured. Probability"
        " of being better: that the first has the better mean over all seeds, by the paired"
        " interval. Probability of improvement: the share of pairs of runs in which the first has"
        " the better value (as in rliable). IQM: the first's mean over the middle half of its"
        " seeds."
    )
    return Table("beats", caption, header, rows)


def superiority(gap: Difference, sign: int) -> float | None:
    """P(true difference is on the better side), by the normal law with the interval's width."""
    if gap.half is None:
        return None
    if not gap.half:
        return 0.5 if not gap.value else float(sign * gap.value < 0)
    return round(NormalDist().cdf(-sign * gap.value / (gap.half / Z95)), 3)


def improvement(own: Sequence[float], theirs: Sequence[float], sign: int) -> float:
    """rliable's P(X > Y): over all pairs of runs the share that the first wins; a tie is half."""
    wins = [1.0 if sign * (a - b) < 0 else 0.5 if a == b else 0.0 for a in own for b in theirs]
    return fmean(wins)


def iqm(values: Sequence[float]) -> float:
    """rliable's interquartile mean: without the lowest and the highest quarter, as scipy's
    trim_mean cuts, whole values only."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return fmean(ordered[cut : len(ordered) - cut])
