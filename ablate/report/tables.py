"""StudyResults -> Table: what a report says in rows and columns, before any format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from ablate.report.blocks import Column, Row, Table, numbers, words
from ablate.report.names import (
    Estimate,
    Item,
    arrow,
    better,
    estimate,
    in_order,
    knob_name,
    metric_label,
    metric_name,
    shown,
)
from ablate.results import INTERVAL, StudyResults, Trial, Value

COSTS = ("nfe", "seconds")
COPIES = "nn_"
"""Prefix of the metrics of a search for copies of training images."""

OF_A_RUNG = re.compile(r"(.+)_n(\d+)$")
"""Metrics that a trial had before its last sample was drawn: (metric, samples)."""


def ranking(results: StudyResults) -> list[Trial]:
    """Complete trials with a finite first objective, best first. The one place that ranks."""
    metric = results.objectives[0].metric
    finite = [t for t in results.trials if math.isfinite(t.metrics.get(metric, math.nan))]
    return results._replace(trials=finite).ranked()


def contenders(results: StudyResults) -> list[Trial]:
    """The ranking without the trials that start from training images, if that leaves any."""
    ranked = ranking(results)
    return [trial for trial in ranked if not results.leaks(trial)] or ranked


def pruned_trials(results: StudyResults) -> list[tuple[Trial, Estimate]]:
    """Pruned trials with the last value of their first objective."""
    metric = results.objectives[0].metric
    found = []
    for trial in results.trials:
        looks = [m for name in trial.metrics if (m := OF_A_RUNG.match(name)) and m[1] == metric]
        if trial.state == "pruned" and looks:
            last = max(looks, key=lambda look: int(look[2]))[0]
            found.append((trial, Estimate(trial.metrics[last], trial.intervals.get(last))))
    return found


def front(results: StudyResults) -> list[Trial]:
    """The contenders that no other beats on one objective without losing on another."""
    goals = results.objectives
    measured = [t for t in contenders(results) if all(goal.metric in t.metrics for goal in goals)]
    costs = {t.number: tuple(g.sign * t.metrics[g.metric] for g in goals) for t in measured}

    def beaten(cost: tuple[float, ...]) -> bool:
        return any(
            other != cost and all(a <= b for a, b in zip(other, cost, strict=True))
            for other in costs.values()
        )

    return [t for t in measured if not beaten(costs[t.number])]


def knob_values(trials: Iterable[Trial], knob: str) -> list[Value]:
    """The distinct values of a knob, in order; numbers before words."""
    values = {t.params[knob] for t in trials if knob in t.params}
    return sorted(values, key=lambda v: (isinstance(v, str), v))


def varied(results: StudyResults) -> list[str]:
    """The knobs that took more than one value; delta only where r does not say it all."""
    knobs = in_order({knob for t in results.trials for knob in t.params})
    several = [knob for knob in knobs if len(knob_values(results.trials, knob)) > 1]
    return [knob for knob in several if knob != "delta" or "r" not in several]


def fixed(results: StudyResults) -> dict[str, Value]:
    """The knobs that took one value, with it."""
    knobs = in_order({knob for t in results.trials for knob in t.params})
    values = {knob: knob_values(results.trials, knob) for knob in knobs}
    return {knob: found[0] for knob, found in values.items() if len(found) == 1}


def is_scale(values: list[Value]) -> bool:
    """Whether these are numbers, not names."""
    return not any(isinstance(value, str) for value in values)


def metrics(results: StudyResults) -> list[str]:
    """Objectives, metrics with a protocol, then whatever else was logged; costs last."""
    first = [o.metric for o in results.objectives]
    logged = [name for t in results.trials for name in t.metrics]
    names = dict.fromkeys([*first, *results.protocols, *sorted(logged)])
    seen = [name for name in names if name in logged or name in first]
    seen = [name for name in seen if name != "samples" and not OF_A_RUNG.search(name)]
    return [m for m in seen if m not in COSTS] + [m for m in COSTS if m in seen]


def searched_for_copies(results: StudyResults) -> bool:
    """Whether trials have metrics of a search for copies of training images."""
    return any(metric.startswith(COPIES) for metric in metrics(results))


def best(results: StudyResults, count: int = 10) -> Table:
    """The first `count` of the ranking: what varies, objectives, costs; baselines apart."""
    objectives = [o.metric for o in results.objectives]
    columns = [*objectives, *(m for m in COSTS if m in metrics(results) and m not in objectives)]
    ranked = ranking(results)
    caption = (
        f"The best {min(count, len(ranked))} of {len(ranked)} complete configurations, by "
        f"{metric_label(results, objectives[0])} ({better(results.objectives[0])}). "
        f"Baselines are set apart and not ranked."
    )
    if not ranked:
        caption = "No configuration is complete yet. Baselines are set apart and not ranked."
    table = _ranked_table("best", caption, results, varied(results), columns, ranked[:count])
    return _with_best_bold(results, table)


def measures(results: StudyResults, count: int = 10) -> Table:
    """What else was measured on the same configurations."""
    objectives = {o.metric for o in results.objectives}
    others = [m for m in metrics(results) if m not in objectives and m not in COSTS]
    columns = [m for m in others if not m.startswith(COPIES)]
    caption = "The same configurations by everything else that was measured."
    table = _ranked_table("measures", caption, results, [], columns, ranking(results)[:count])
    return _with_best_bold(results, table)


def neighbours(results: StudyResults, count: int = 10) -> Table:
    """Whether samples are copies of training images."""
    columns = [m for m in metrics(results) if m.startswith(COPIES)]
    caption = (
        "Distances to the nearest training image, against those of held-out images. Closer: the "
        "probability that a sample is nearer than a held-out image; 0.5 is expected without "
        "copying. C_T: the same as a z-score; below −3 samples are copies, or too smooth: the "
        "suspects show which."
    )
    table = _ranked_table("neighbours", caption, results, [], columns, ranking(results)[:count])
    return _with_best_bold(results, table)


def _ranked_table(
    name: str,
    caption: str,
    results: StudyResults,
    knobs: list[str],
    columns: list[str],
    top: list[Trial],
) -> Table:
    header = [numbers("rank"), numbers("trial")]
    header += [*_knob_columns(results, knobs), *_metric_columns(results, columns)]
    ranks = _ranks(results)
    rows: list[Row] = [
        (ranks[t.number], t.number, *_shown(results, t, knobs, columns)) for t in top
    ]
    return Table(name, caption, header, rows, _apart(results, columns))


def _with_best_bold(results: StudyResults, table: Table) -> Table:
    """Bold where the best contender stands: an oracle may be above it, or all that is shown."""
    numbers = [row[1] for row in table.rows]
    first = next((trial.number for trial in contenders(results)), None)
    return table._replace(bold=numbers.index(first) if first in numbers else None)


def baselines(results: StudyResults) -> Table:
    """What to compare the trials with."""
    columns = [m for m in metrics(results) if any(m in y for y in results.baselines.values())]
    header = [words("baseline"), *_metric_columns(results, columns)]
    return Table("baselines", "Baselines.", header, _apart(results, columns))


def trials(results: StudyResults) -> Table:
    """Everything about every trial, by number."""
    knobs, columns = [*varied(results), *fixed(results)], metrics(results)
    ranks = _ranks(results)
    header = [numbers("trial"), words("state"), numbers("rank"), numbers("seeds")]
    header += [*_knob_columns(results, knobs), *_metric_columns(results, columns), words("reason")]
    rows: list[Row] = [
        (
            t.number,
            t.state,
            ranks.get(t.number),
            len(t.cells),
            *_shown(results, t, knobs, columns),
            t.reason,
        )
        for t in results.trials
    ]
    return Table("trials", "Every trial, everything measured.", header, rows)


def troubles(results: StudyResults) -> Table:
    """Trials that ended without a place in the ranking, and why."""
    knobs = varied(results)
    placed = {trial.number for trial in ranking(results)}
    header = [numbers("trial"), words("state")]
    header += [*_knob_columns(results, knobs), words("reason")]
    rows: list[Row] = [
        (t.number, t.state, *_shown(results, t, knobs, []), t.reason or _broken(results, t))
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


def importance(results: StudyResults) -> Table:
    """Each knob's share of what moves each objective, by Optuna's evaluators."""
    header, columns = [words("knob")], []
    for metric, methods in results.importance.items():
        for method, shares in methods.items():
            header.append(
                numbers(f"{metric}_{method}", f"{metric_name(results, metric)}, {method}")
            )
            columns.append(shares)
    knobs = in_order({knob for shares in columns for knob in shares})
    rows: list[Row] = [
        (knob_name(knob), *(round(s[knob], 3) if knob in s else None for s in columns))
        for knob in knobs
    ]
    caption = (
        "Importance of the knobs that can be separated: the share of an objective's variation "
        "that each explains (fANOVA, where all trials have the same knobs), or of what separates "
        "the best tenth, or the best five, from the rest (PED-ANOVA). Pruned trials count with "
        "their last value."
    )
    return Table("importance", caption, header, rows)


def published(results: StudyResults) -> Table:
    """Values that others published for the same knobs, beside ours."""
    entries = results.published
    knobs = in_order({knob for entry in entries for knob in entry["knobs"]})
    names = list(dict.fromkeys(name for entry in entries for name in entry["metrics"]))
    header = [*(words(knob, knob_name(knob)) for knob in knobs), numbers("trial")]
    for name in names:
        header += [numbers(f"{name}_theirs", f"{metric_name(results, name)}, theirs")]
        header += [numbers(f"{name}_ours", f"{metric_label(results, name)}, ours")]
    caption = (
        "Published values beside ours, for the same knobs. Not to be ranked together: other "
        "networks, other features, another number of samples (see below how ours were measured)."
    )
    rows = [_published_row(results, entry, knobs, names) for entry in entries]
    return Table("published", caption, header, rows)


def _published_row(
    results: StudyResults, entry: dict[str, Any], knobs: list[str], names: list[str]
) -> Row:
    """The knobs, our best trial that has them, and each metric of theirs and of that trial."""
    wanted = entry["knobs"]
    ours = next((t for t in ranking(results) if wanted.items() <= t.params.items()), None)
    settings = [shown(results, wanted[knob]) if knob in wanted else None for knob in knobs]
    values: list[Item] = []
    for name in names:
        values += [entry["metrics"].get(name), ours and estimate(ours, name)]
    return (*settings, ours and ours.number, *values)


def pareto(results: StudyResults) -> Table:
    """The Pareto front of several objectives, best first by the first of them."""
    columns = [o.metric for o in results.objectives]
    caption = "The Pareto front: nothing else is better on one objective and no worse on the rest."
    return _ranked_table("pareto", caption, results, varied(results), columns, front(results))


def protocols(results: StudyResults) -> Table:
    """How each metric was measured: a column for those measured alike."""
    alike: list[tuple[list[str], dict[str, Value]]] = []
    for metric, protocol in results.protocols.items():
        same = next((names for names, other in alike if other == protocol), None)
        if same is None:
            alike.append(([metric], protocol))
        else:
            same.append(metric)
    header = [words("key", "")]
    header += [
        words(names[0], ", ".join(metric_name(results, name) for name in names))
        for names, _ in alike
    ]
    keys = dict.fromkeys(key for _, protocol in alike for key in protocol)
    rows: list[Row] = [
        (key.replace("_", " "), *(protocol.get(key) for _, protocol in alike)) for key in keys
    ]
    caption = "Numbers measured in different ways are never put in one ranking."
    return Table("protocols", caption, header, rows)


def provenance(results: StudyResults) -> Table:
    """What it takes to measure this again."""
    header = [words("what", ""), words("value", "")]
    rows: list[Row] = [
        ("study", results.name),
        ("budget", results.budget),
        ("hash of the resolved study", results.hash),
        (
            "objectives",
            ", ".join(f"{metric_name(results, o.metric)} {arrow(o)}" for o in results.objectives),
        ),
        *((key.replace("_", " "), value) for key, value in sorted(results.tags.items())),
    ]
    return Table("provenance", "Where the numbers come from.", header, rows)


def _knob_columns(results: StudyResults, knobs: list[str]) -> list[Column]:
    return [Column(k, knob_name(k), not is_scale(knob_values(results.trials, k))) for k in knobs]


def _metric_columns(results: StudyResults, names: list[str]) -> list[Column]:
    arrows = {o.metric: f" {arrow(o)}" for o in results.objectives}
    return [Column(m, f"{metric_label(results, m)}{arrows.get(m, '')}") for m in names]


def _shown(results: StudyResults, trial: Trial, knobs: list[str], names: list[str]) -> Row:
    settings = (shown(results, trial.params[k]) if k in trial.params else None for k in knobs)
    return (*settings, *(estimate(trial, name) for name in names))


def _ranks(results: StudyResults) -> dict[int, int]:
    return {trial.number: rank for rank, trial in enumerate(ranking(results), 1)}


def _baseline(measured: dict[str, float], metric: str) -> Estimate | None:
    if metric not in measured:
        return None
    return Estimate(measured[metric], measured.get(metric + INTERVAL))


def _apart(results: StudyResults, names: list[str]) -> list[Row]:
    return [
        (label, *(_baseline(measured, m) for m in names))
        for label, measured in results.baselines.items()
        if any(m in measured for m in names)
    ]
