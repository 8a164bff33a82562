"""StudyResults -> Table: what a report says in rows and columns, before any format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ablate.report.names import (
    Estimate,
    Item,
    arrow,
    better,
    estimate,
    in_order,
    knob_name,
    leaks,
    metric_name,
    shown,
    text,
)
from ablate.results import INTERVAL, StudyResults, Trial, Value

COSTS = ("nfe", "seconds")
NEIGHBOURS = "nn_"
"""Beginning of the metrics that tell of copies."""

OF_A_RUNG = re.compile(r"(.+)_n(\d+)$")
"""Metrics that a trial had before its last sample was drawn: (metric, samples)."""

Row = tuple[Item, ...]


class Column(NamedTuple):
    key: str  # in CSV
    label: str  # for readers
    left: bool = False  # words are set to the left, numbers to the right


def words(key: str, label: str | None = None) -> Column:
    return Column(key, key if label is None else label, left=True)


def numbers(key: str, label: str | None = None) -> Column:
    return Column(key, key if label is None else label)


class Table(NamedTuple):
    name: str  # of its files
    caption: str
    header: list[Column]
    rows: list[Row]
    apart: Sequence[Row] = ()  # not ranked: a label across the leading columns, then the last ones


def ranking(record: StudyResults) -> list[Trial]:
    """Complete trials with a finite first objective, best first. The one place that ranks."""
    metric = record.objectives[0].metric
    finite = [t for t in record.trials if math.isfinite(t.metrics.get(metric, math.nan))]
    return record._replace(trials=finite).ranked()


def contenders(record: StudyResults) -> list[Trial]:
    """The ranking without the trials that start from training images, if that leaves any."""
    ranked = ranking(record)
    return [trial for trial in ranked if not leaks(trial)] or ranked


def pruned_trials(record: StudyResults) -> list[tuple[Trial, Estimate]]:
    """Trials that were given up early, with the first objective as far as they were drawn."""
    metric = record.objectives[0].metric
    found = []
    for trial in record.trials:
        looks = [m for name in trial.metrics if (m := OF_A_RUNG.match(name)) and m[1] == metric]
        if trial.state == "pruned" and looks:
            last = max(looks, key=lambda look: int(look[2]))[0]
            found.append((trial, Estimate(trial.metrics[last], trial.intervals.get(last))))
    return found


def front(record: StudyResults) -> list[Trial]:
    """The contenders that no other beats on one objective without losing on another."""
    signs = [(o.metric, -1 if o.direction == "maximize" else 1) for o in record.objectives]
    measured = [t for t in contenders(record) if all(metric in t.metrics for metric, _ in signs)]
    costs = {t.number: tuple(sign * t.metrics[metric] for metric, sign in signs) for t in measured}

    def beaten(own: tuple[float, ...]) -> bool:
        return any(
            other != own and all(a <= b for a, b in zip(other, own, strict=True))
            for other in costs.values()
        )

    return [t for t in measured if not beaten(costs[t.number])]


def knob_values(trials: Iterable[Trial], knob: str) -> list[Value]:
    """The distinct values of a knob, in order; numbers before words."""
    values = {t.params[knob] for t in trials if knob in t.params}
    return sorted(values, key=lambda v: (isinstance(v, str), v))


def varied(record: StudyResults) -> list[str]:
    """The knobs that took more than one value; delta only where r does not say it all."""
    knobs = in_order({knob for t in record.trials for knob in t.params})
    several = [knob for knob in knobs if len(knob_values(record.trials, knob)) > 1]
    return [knob for knob in several if knob != "delta" or "r" not in several]


def fixed(record: StudyResults) -> dict[str, Value]:
    """The knobs that took one value, with it."""
    knobs = in_order({knob for t in record.trials for knob in t.params})
    values = {knob: knob_values(record.trials, knob) for knob in knobs}
    return {knob: found[0] for knob, found in values.items() if len(found) == 1}


def is_scale(values: list[Value]) -> bool:
    """Numbers, not names?"""
    return not any(isinstance(value, str) for value in values)


def metrics(record: StudyResults) -> list[str]:
    """Objectives, metrics with a protocol, then whatever else was logged; costs last."""
    first = [o.metric for o in record.objectives]
    logged = [name for t in record.trials for name in t.metrics]
    names = dict.fromkeys([*first, *record.protocols, *sorted(logged)])
    seen = [name for name in names if name in logged or name in first]
    seen = [name for name in seen if name != "samples" and not OF_A_RUNG.search(name)]
    return [m for m in seen if m not in COSTS] + [m for m in COSTS if m in seen]


def metric_label(record: StudyResults, metric: str) -> str:
    """The metric's name; FID, biased at small N, always with its N."""
    samples = record.protocols.get(metric, {}).get("samples")
    named = metric_name(metric)
    return f"{named} at N = {text(samples)}" if metric.startswith("fid") and samples else named


def best(record: StudyResults, count: int = 10) -> Table:
    """The first `count` of the ranking: what varies, objectives, costs; baselines apart."""
    objectives = [o.metric for o in record.objectives]
    columns = [*objectives, *(m for m in COSTS if m in metrics(record) and m not in objectives)]
    ranked = ranking(record)
    caption = (
        f"The best {min(count, len(ranked))} of {len(ranked)} complete configurations, by "
        f"{metric_label(record, objectives[0])} ({better(record.objectives[0])}). "
        f"Baselines are set apart and not ranked."
    )
    if not ranked:
        caption = "No configuration is complete yet; the baselines to come."
    return _ranked_table("best", caption, record, varied(record), columns, ranked[:count])


def measures(record: StudyResults, count: int = 10) -> Table:
    """What else was measured on the same configurations."""
    objectives = {o.metric for o in record.objectives}
    others = [m for m in metrics(record) if m not in objectives and m not in COSTS]
    columns = [m for m in others if not m.startswith(NEIGHBOURS)]
    caption = "The same configurations by everything else that was measured."
    return _ranked_table("measures", caption, record, [], columns, ranking(record)[:count])


def neighbours(record: StudyResults, count: int = 10) -> Table:
    """Are samples copies of training images?"""
    columns = [m for m in metrics(record) if m.startswith(NEIGHBOURS)]
    caption = (
        "Distances to the nearest training image, held against those of held-out images. Closer: "
        "the chance that a sample is nearer than a held-out image is, 0.5 if all is well. C_T: the "
        "same as a z-score; below −3 samples are copies, or too smooth: the suspects tell which."
    )
    return _ranked_table("neighbours", caption, record, [], columns, ranking(record)[:count])


def _ranked_table(
    name: str,
    caption: str,
    record: StudyResults,
    knobs: list[str],
    columns: list[str],
    top: list[Trial],
) -> Table:
    header = [numbers("rank"), numbers("trial")]
    header += [*_knob_columns(record, knobs), *_metric_columns(record, columns)]
    ranks = _ranks(record)
    rows: list[Row] = [(ranks[t.number], t.number, *_told(t, knobs, columns)) for t in top]
    return Table(name, caption, header, rows, _apart(record, columns))


def baselines(record: StudyResults) -> Table:
    """What to hold the trials against."""
    columns = [m for m in metrics(record) if any(m in y for y in record.baselines.values())]
    header = [words("baseline"), *_metric_columns(record, columns)]
    return Table("baselines", "Baselines.", header, _apart(record, columns))


def trials(record: StudyResults) -> Table:
    """Everything about every trial, by number."""
    knobs, columns = [*varied(record), *fixed(record)], metrics(record)
    ranks = _ranks(record)
    header = [numbers("trial"), words("state"), numbers("rank"), numbers("seeds")]
    header += [*_knob_columns(record, knobs), *_metric_columns(record, columns), words("reason")]
    rows: list[Row] = [
        (t.number, t.state, ranks.get(t.number), len(t.cells), *_told(t, knobs, columns), t.reason)
        for t in record.trials
    ]
    return Table("trials", "Every trial, everything measured.", header, rows)


def troubles(record: StudyResults) -> Table:
    """Trials that ended without a place in the ranking, and why."""
    knobs = varied(record)
    placed = {trial.number for trial in ranking(record)}
    header = [numbers("trial"), words("state")]
    header += [*_knob_columns(record, knobs), words("reason")]
    rows: list[Row] = [
        (t.number, t.state, *_told(t, knobs, []), t.reason or _broken(record, t))
        for t in record.trials
        if t.number not in placed and t.state != "running"
    ]
    return Table("troubles", "Trials without a place in the ranking.", header, rows)


def _broken(record: StudyResults, trial: Trial) -> str | None:
    """The constraints that a trial does not keep to, as a reason."""
    bounds = record.spec.get("constraints", {})
    broken = [
        f"{metric_name(name)} {trial.metrics[name]:.3g} exceeds {bounds[name]:.3g}"
        for name in record.violated(trial)
    ]
    return "; ".join(broken) or None


def importance(record: StudyResults) -> Table:
    """How much of what moves each objective is each knob's doing, by Optuna's evaluators."""
    header, columns = [words("knob")], []
    for metric, methods in record.importance.items():
        for method, shares in methods.items():
            header.append(numbers(f"{metric}_{method}", f"{metric_name(metric)}, {method}"))
            columns.append(shares)
    knobs = in_order({knob for shares in columns for knob in shares})
    rows: list[Row] = [
        (knob_name(knob), *(round(s[knob], 3) if knob in s else None for s in columns))
        for knob in knobs
    ]
    caption = (
        "Importance of the knobs that can be told apart: the share of an objective's variation "
        "that each explains (fANOVA, where all trials have the same knobs), or of what tells the "
        "best tenth, or the best five, from the rest (PED-ANOVA). Trials that were given up early "
        "count with what they had by then."
    )
    return Table("importance", caption, header, rows)


def marks(record: StudyResults) -> Table:
    """What others printed for the same knobs, beside ours."""
    told = record.spec.get("marks", [])
    knobs = in_order({knob for mark in told for knob in mark["knobs"]})
    names = list(dict.fromkeys(name for mark in told for name in mark["metrics"]))
    header = [*(words(knob, knob_name(knob)) for knob in knobs), numbers("trial")]
    for name in names:
        header += [numbers(f"{name}_theirs", f"{metric_name(name)}, theirs")]
        header += [numbers(f"{name}_ours", f"{metric_label(record, name)}, ours")]
    rows: list[Row] = []
    for mark in told:
        wanted = mark["knobs"].items()
        ours = next((t for t in ranking(record) if wanted <= t.params.items()), None)
        values: list[Item] = []
        for name in names:
            values += [mark["metrics"].get(name), ours and estimate(ours, name)]
        own = [shown(mark["knobs"][knob]) if knob in mark["knobs"] else None for knob in knobs]
        rows.append((*own, ours and ours.number, *values))
    caption = (
        "What the paper prints for the same knobs, beside ours. Not to be ranked together: other "
        "networks, other features, another number of samples (how ours were measured stands below)."
    )
    return Table("marks", caption, header, rows)


def pareto(record: StudyResults) -> Table:
    """The Pareto front of several objectives, best first by the first of them."""
    columns = [o.metric for o in record.objectives]
    caption = "The Pareto front: nothing else is better on one objective and no worse on the rest."
    return _ranked_table("pareto", caption, record, varied(record), columns, front(record))


def protocols(record: StudyResults) -> Table:
    """How each metric was measured: a column for those measured alike."""
    alike: list[tuple[list[str], dict[str, Value]]] = []
    for metric, protocol in record.protocols.items():
        same = next((names for names, other in alike if other == protocol), None)
        if same is None:
            alike.append(([metric], protocol))
        else:
            same.append(metric)
    header = [words("key", "")]
    header += [words(names[0], ", ".join(map(metric_name, names))) for names, _ in alike]
    keys = dict.fromkeys(key for _, protocol in alike for key in protocol)
    rows: list[Row] = [
        (key.replace("_", " "), *(protocol.get(key) for _, protocol in alike)) for key in keys
    ]
    caption = "Numbers measured in different ways are never put in one ranking."
    return Table("protocols", caption, header, rows)


def provenance(record: StudyResults) -> Table:
    """What it takes to measure this again."""
    header = [words("what", ""), words("value", "")]
    rows: list[Row] = [
        ("study", record.name),
        ("budget", record.budget),
        ("hash of the resolved study", record.hash),
        ("objectives", ", ".join(f"{metric_name(o.metric)} {arrow(o)}" for o in record.objectives)),
        *((key.replace("_", " "), value) for key, value in sorted(record.tags.items())),
    ]
    return Table("provenance", "Where the numbers come from.", header, rows)


def _knob_columns(record: StudyResults, knobs: list[str]) -> list[Column]:
    return [Column(k, knob_name(k), not is_scale(knob_values(record.trials, k))) for k in knobs]


def _metric_columns(record: StudyResults, names: list[str]) -> list[Column]:
    arrows = {o.metric: f" {arrow(o)}" for o in record.objectives}
    return [Column(m, f"{metric_label(record, m)}{arrows.get(m, '')}") for m in names]


def _told(trial: Trial, knobs: list[str], names: list[str]) -> Row:
    settings = (shown(trial.params[k]) if k in trial.params else None for k in knobs)
    return (*settings, *(estimate(trial, name) for name in names))


def _ranks(record: StudyResults) -> dict[int, int]:
    return {trial.number: rank for rank, trial in enumerate(ranking(record), 1)}


def _baseline(measured: dict[str, float], metric: str) -> Estimate | None:
    if metric not in measured:
        return None
    return Estimate(measured[metric], measured.get(metric + INTERVAL))


def _apart(record: StudyResults, names: list[str]) -> list[Row]:
    return [
        (label, *(_baseline(measured, m) for m in names))
        for label, measured in record.baselines.items()
        if any(m in measured for m in names)
    ]
