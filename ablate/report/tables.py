"""StudyResults -> tables of trials: the ranked, every one, those without a place."""

from __future__ import annotations

from ablate.report.blocks import Row, Table, numbers, words
from ablate.report.columns import (
    COPIES,
    COSTS,
    baseline_rows,
    knob_columns,
    metric_columns,
    metrics,
    trial_cells,
    with_diversity,
)
from ablate.report.knobs import distinguishing, fixed, implied, varied
from ablate.report.names import Item, better, configuration, metric_label, metric_name
from ablate.report.ranking import contenders, front, ranking
from ablate.report.steps import step_names
from ablate.results import StudyResults, Trial, Value


def best(results: StudyResults, count: int = 10) -> Table:
    """The first `count` of the ranking: its steps of a ladder or what varies, objectives, costs;
    baselines apart.

    Beside KID stand recall and coverage: samples of few kinds may have a good KID.
    """
    objectives = [o.metric for o in results.objectives]
    columns = _of_the_best(results)
    ranked = ranking(results)
    which = f"The best {count} of {len(ranked)}" if len(ranked) > count else f"The {len(ranked)}"
    caption = (
        f"{which} complete configurations, by "
        f"{metric_label(results, objectives[0])} ({better(results.objectives[0])}). "
        f"Baselines are set apart and not ranked."
    )
    if not ranked:
        caption = "No configuration is complete yet. Baselines are set apart and not ranked."
    top = ranked[:count]
    knobs = [] if results.ladder else _differing(top, distinguishing(results))
    table = _ranked_table(results, "best", caption, knobs, columns, top)
    return _with_best_bold(results, _with_steps(results, table) if results.ladder else table)


def _of_the_best(results: StudyResults) -> list[str]:
    """The metrics that stand in the ranking."""
    objectives = [o.metric for o in results.objectives]
    costs = [m for m in COSTS if m in metrics(results) and m not in objectives]
    return [*with_diversity(results, objectives), *costs]


def _differing(top: list[Trial], knobs: list[str]) -> list[str]:
    """The knobs without those that none of these trials has."""
    return [knob for knob in knobs if any(knob in trial.params for trial in top)]


def _with_steps(results: StudyResults, table: Table) -> Table:
    """The table with the steps of a ladder behind the trials' numbers; what has no step is named by
    its knobs."""
    steps, knobs = step_names(results), distinguishing(results)
    named: dict[Item, str] = {
        t.number: steps.get(t.number) or configuration(results, t, knobs) for t in results.trials
    }
    rows: list[Row] = [(*row[:2], named[row[1]], *row[2:]) for row in table.rows]
    return table._replace(header=[*table.header[:2], words("step"), *table.header[2:]], rows=rows)


def measures(results: StudyResults, count: int = 10) -> Table:
    """What else was measured on the same configurations; the caption names what is 0 in all."""
    top, said = ranking(results)[:count], _of_the_best(results)
    others = [m for m in metrics(results) if m not in said and not m.startswith(COPIES)]
    nothing = [m for m in others if all(t.metrics.get(m) == 0 for t in top)] if top else []
    columns = [m for m in others if m not in nothing]
    caption = "The same configurations by everything else that was measured."
    if nothing:
        zero = " and ".join(metric_name(results, m) for m in nothing)
        caption += f" All have 0 for {zero}."
    table = _ranked_table(results, "measures", caption, [], columns, top)
    return _with_best_bold(results, table)


def pareto(results: StudyResults) -> Table:
    """The Pareto front of several objectives, best first by the first of them."""
    columns = with_diversity(results, [o.metric for o in results.objectives])
    caption = "The Pareto front: nothing else is better on one objective and no worse on the rest."
    top = front(results)
    knobs = _differing(top, distinguishing(results))
    return _ranked_table(results, "pareto", caption, knobs, columns, top)


def _ranked_table(
    results: StudyResults,
    name: str,
    caption: str,
    knobs: list[str],
    columns: list[str],
    top: list[Trial],
) -> Table:
    """A row for each of the top trials, these knobs and metrics as columns; baselines apart."""
    header = [numbers("rank"), numbers("trial")]
    header += [*knob_columns(results, knobs), *metric_columns(results, columns)]
    ranks = _ranks(results)
    rows: list[Row] = [
        (ranks[_which(t)], t.number, *trial_cells(results, t, knobs, columns)) for t in top
    ]
    return Table(name, caption, header, rows, baseline_rows(results, columns))


def _with_best_bold(results: StudyResults, table: Table) -> Table:
    """The table with the best contender in bold; oracles may stand above it."""
    rows = [row[1] for row in table.rows]
    first = next((trial.number for trial in contenders(results)), None)
    return table._replace(bold=rows.index(first) if first in rows else None)


def baselines(results: StudyResults) -> Table:
    """What to compare the trials with."""
    columns = [m for m in metrics(results) if any(m in y for y in results.baselines.values())]
    header = [words("baseline"), *metric_columns(results, columns)]
    return Table("baselines", "Baselines.", header, baseline_rows(results, columns))


def trials(results: StudyResults) -> Table:
    """Everything about every trial, by number."""
    knobs, columns = [*varied(results), *implied(results), *fixed(results)], metrics(results)
    ranks = _ranks(results)
    header = [numbers("trial"), words("state"), numbers("rank"), numbers("seeds")]
    header += [
        numbers("samples"),
        *knob_columns(results, knobs),
        *metric_columns(results, columns),
        words("reason"),
    ]
    rows: list[Row] = []
    for t in results.trials:
        head = (t.number, t.state, ranks.get(_which(t)), len(t.cells), t.metrics.get("samples"))
        rows.append((*head, *trial_cells(results, t, knobs, columns), t.reason))
    return Table("trials", "Every trial, everything measured.", header, rows)


def troubles(results: StudyResults) -> Table:
    """Trials that ended without a place in the ranking, and why."""
    knobs = distinguishing(results)
    placed = {trial.number for trial in ranking(results)}
    header = [numbers("trial"), words("state")]
    header += [*knob_columns(results, knobs), words("reason")]
    rows: list[Row] = [
        (t.number, t.state, *trial_cells(results, t, knobs, []), t.reason or _broken(results, t))
        for t in results.trials
        if t.number not in placed and t.state != "running"
    ]
    return Table("troubles", "Trials without a place in the ranking.", header, rows)


def _broken(results: StudyResults, trial: Trial) -> str | None:
    """The constraints that a trial violates, as a reason."""
    bounds = results.spec.get("constraints", {})
    broken = [
        f"{metric_name(results, name)} {trial.metrics[name]:.3g} exceeds {bounds[name]:.3g}"
        for name in results.violated(trial)
    ]
    return "; ".join(broken) or None


def _ranks(results: StudyResults) -> dict[tuple[Value, int], int]:
    return {_which(trial): rank for rank, trial in enumerate(ranking(results), 1)}


def _which(trial: Trial) -> tuple[Value, int]:
    """A trial's study, where several are joined, and its number: studies count from 0 each."""
    return trial.params.get("study", ""), trial.number
