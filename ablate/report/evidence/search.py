"""What the search did: the best so far, every trial with its state, and what it cost."""

from __future__ import annotations

from ablate.report.blocks import Block, Details, Figure, Paragraph, Row, Table, numbers, words
from ablate.report.figures import baselines, objective_label
from ablate.report.knobs import distinguishing
from ablate.report.names import Estimate, configuration, estimate, metric_name, number
from ablate.report.ranking import pruned_trials, ranking
from ablate.report.shapes import Axis, Dot, Scatter, axis_of
from ablate.results import StudyResults, Trial


def blocks(results: StudyResults) -> list[Block]:
    """The curve of a search, the table of its trials, its cost; a grid has no curve."""
    made: list[Block] = []
    if results.spec.get("method", "") not in ("", "grid", "ladder"):
        data = progress(results)
        made += [Figure("progress", _caption(results), data)] if data is not None else []
    summary = spending(results)
    made += [Paragraph(summary)] if summary else []
    return [*made, Details("Every trial in the order in which it was begun", history(results))]


def values(results: StudyResults) -> dict[int, Estimate]:
    """Trial -> the first objective on the samples that it had, complete or pruned."""
    metric = results.objectives[0].metric
    found = {t.number: y for t in ranking(results) if (y := estimate(t, metric)) is not None}
    return found | {trial.number: value for trial, value in pruned_trials(results)}


def best_so_far(results: StudyResults) -> list[tuple[int, float]]:
    """(trial, its value) of each complete trial that was better than all before it."""
    metric, sign = results.objectives[0].metric, results.objectives[0].sign
    ranked = {t.number for t in ranking(results) if not results.leaks(t)}
    steps: list[tuple[int, float]] = []
    for trial in results.trials:
        if trial.number in ranked:
            value = trial.metrics[metric]
            if not steps or sign * value < sign * steps[-1][1]:
                steps.append((trial.number, value))
    return steps


def progress(results: StudyResults) -> Scatter | None:
    """Every trial in order, and the best so far as a line."""
    found, steps = values(results), best_so_far(results)
    if len(steps) < 1 or len(found) < 3:
        return None
    pruned = {trial.number for trial, _ in pruned_trials(results)}
    last = steps[-1][0]
    dots = [
        Dot(n, "", float(n), y, best=n == last, pruned=n in pruned)
        for n, y in sorted(found.items())
    ]
    scale = axis_of(objective_label(results), (dot.y for dot in dots))
    corners = [(float(steps[0][0]), steps[0][1])]
    for later, value in (*steps[1:], (max(found), steps[-1][1])):  # a step down, not a slope
        corners += [(float(later), corners[-1][1]), (float(later), value)]
    corners = list(dict.fromkeys(corners))
    near, beyond = baselines(results, dots, scale)[0], (1, -results.objectives[0].sign)
    return Scatter(Axis("trial"), scale, dots, near, corners, beyond)


def _caption(results: StudyResults) -> str:
    name = metric_name(results, results.objectives[0].metric)
    crosses = "; crosses: pruned, at the samples they had" * bool(pruned_trials(results))
    return (
        f"{name} of every trial in the order of the search; the line joins those that were the best"
        f" so far; bars: 95 % intervals{crosses}; dashed: baselines."
    )


def history(results: StudyResults) -> Table:
    """Every trial: its state, what it had measured on how many samples, and the best so far."""
    label = metric_name(results, results.objectives[0].metric)
    header = [numbers("trial"), words("state"), words("configuration"), numbers("samples")]
    header += [numbers("value", label), numbers("best_so_far", "best so far")]
    header += [numbers("evaluations", "evaluations"), numbers("seconds"), words("reason")]
    found, steps, knobs = values(results), dict(best_so_far(results)), distinguishing(results)
    rows: list[Row] = []
    best: float | None = None
    for trial in results.trials:
        best = steps.get(trial.number, best)
        what = configuration(results, trial, knobs)
        head = (trial.number, trial.state, what, drawn(trial) or None, found.get(trial.number))
        seconds = sum(cell.metrics.get("seconds", 0.0) for cell in trial.cells)
        spent = (evaluations(trial) or None, number(seconds, 3) if seconds else None)
        rows.append((*head, best, *spent, trial.reason))
    caption = (
        f"Every trial in the order in which it was begun: {label} on the samples that it had, over"
        " all its seeds, with its 95 % interval. Pruned trials ended at fewer samples."
    )
    return Table("history", caption, header, rows)


def drawn(trial: Trial) -> int:
    """The samples that a trial drew, over its seeds."""
    return int(sum(cell.metrics.get("samples", 0.0) for cell in trial.cells))


def evaluations(trial: Trial) -> int:
    """Evaluations of the network, each of one image."""
    return int(sum(c.metrics.get("nfe", 0.0) * c.metrics.get("samples", 0.0) for c in trial.cells))


def saved(results: StudyResults) -> int:
    """Evaluations that pruning saved: of the samples and seeds that pruned trials did not draw."""
    planned = results.spec.get("samples", 0) * len(results.spec.get("seeds", ()))
    return sum(
        int(trial.cells[0].metrics.get("nfe", 0.0)) * max(planned - drawn(trial), 0)
        for trial in results.trials
        if trial.state == "pruned" and trial.cells
    )


def spending(results: StudyResults) -> str:
    """The total cost of search and confirmation, and what pruning saved."""
    total = sum(map(evaluations, results.trials))
    if not total:
        return ""
    again = sum(map(evaluations, results.confirmations))
    seconds = sum(
        cell.metrics.get("seconds", 0.0)
        for trial in (*results.trials, *results.confirmations)
        for cell in trial.cells
    )
    parts = [
        f"In all {sum(map(drawn, results.trials)):,} samples were drawn for {len(results.trials)}"
        f" trials, with {number(total)} evaluations of the network"
        + (f", and {number(again)} more to measure the best again" if again else "")
        + f": {_time(seconds)} of drawing{_other_work(results, seconds)}."
    ]
    pruned = sum(trial.state == "pruned" for trial in results.trials)
    if pruned and (less := saved(results)):
        share = 100 * less / (total + less)
        parts.append(
            f"Pruning ended {pruned} of them early and saved {number(less)} evaluations,"
            f" {share:.0f} % of what the search would have cost."
        )
    return " ".join(parts)


def _other_work(results: StudyResults, drawing: float) -> str:
    """; with training and measuring 5.6 minutes of work: where drawing is not most of it"""
    if results.at_work <= drawing:
        return ""
    trained = any(len(set(trial.training_seeds)) > 1 for trial in results.trials)
    what = "training and measuring" if trained else "measuring"
    return f", with {what} {_time(results.at_work)} of work"


def _time(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.1f} hours" if minutes >= 100 else f"{minutes:.1f} minutes"
