"""StudyResults -> the sentences that answer the study's question."""

from __future__ import annotations

from collections import Counter

from ablate.report.names import (
    Estimate,
    better,
    configuration,
    estimate,
    leaks,
    metric_name,
    text,
    trial_name,
)
from ablate.report.tables import contenders, front, metric_label, ranking, varied
from ablate.results import INTERVAL, StudyResults, Trial, summarise

ONE_SEED = "one seed: no interval"


def state(record: StudyResults) -> str:
    """15 of 20 planned trials complete, 1 diverged, 1 failed, 1 running."""
    counts = Counter(trial.state for trial in record.trials)
    others = [s for s in ("diverged", "failed", "pruned", "repeated", "running") if counts[s]]
    done = f"{counts['complete']} of {record.planned} planned trials complete"
    return ", ".join([done, *(f"{counts[s]} {s}" for s in others)]) + "."


def answer(record: StudyResults) -> list[str]:
    """Sentences: the best, against the baselines, against the runner-up; oracles stand aside."""
    ranked, field = ranking(record), contenders(record)
    if not ranked:
        return ["No configuration is complete yet, so there is no answer yet."]
    sentences = [_winner(record, field), *_against_baselines(record, field[0])]
    sentences += _against_runner_up(record, field)
    if leaks(ranked[0]):
        sentences.append(_oracle(record, ranked[0]))
    if len(record.objectives) > 1:
        names = " and ".join(metric_name(o.metric) for o in record.objectives)
        sentences.append(f"Trials on the Pareto front of {names}: {len(front(record))}.")
    return sentences


def single_seed(record: StudyResults) -> bool:
    """Has no complete trial an interval?"""
    metric, ranked = record.objectives[0].metric, ranking(record)
    return bool(ranked) and not any(metric in trial.intervals for trial in ranked)


def measured(record: StudyResults, trial: Trial) -> str:
    """KID 0.042 ± 0.017 (mean and 95 % interval over 3 seeds)."""
    metric = record.objectives[0].metric
    what = f"{metric_name(metric)} {text(estimate(trial, metric))}"
    if metric not in trial.intervals:
        return f"{what} ({ONE_SEED})"
    count = sum(metric in cell.metrics for cell in trial.cells)
    return f"{what} (mean and 95 % interval over {count} seeds)"


def _winner(record: StudyResults, field: list[Trial]) -> str:
    objective = record.objectives[0]
    name = f"{metric_label(record, objective.metric)} ({better(objective)})"
    count, aside = len(field), len(ranking(record)) - len(field)
    of = (
        f"Of {count} complete configurations{' that leak no data' * bool(aside)} the best by {name}"
    )
    which = of if count > 1 else "The only complete configuration"
    what = trial_name(field[0], varied(record))
    return f"{which} is {what}, with {measured(record, field[0])}."


def _against_baselines(record: StudyResults, trial: Trial) -> list[str]:
    """It is better than a (0.2) and worse than b (0.001)."""
    metric = record.objectives[0].metric
    marks = {
        name: Estimate(stick[metric], stick.get(metric + INTERVAL))
        for name, stick in record.baselines.items()
        if metric in stick
    }
    parts = [
        f"{_verdict(record, trial, mark)} {name} ({text(mark)})" for name, mark in marks.items()
    ]
    return [f"It is {', and '.join(parts)}."] if parts else []


def _verdict(record: StudyResults, trial: Trial, mark: Estimate) -> str:
    """As configurations are told apart: by intervals that do not overlap."""
    objective = record.objectives[0]
    metric = objective.metric
    gap = trial.metrics[metric] - mark.value
    if abs(gap) <= trial.intervals.get(metric, 0.0) + (mark.half or 0.0):
        return "not to be told apart from"
    return "better than" if objective.sign * gap < 0 else "worse than"


def tied(field: list[Trial], metric: str) -> int:
    """How many of the first configurations have intervals that overlap the best one's."""
    count = 0
    for trial in field:
        reach = trial.intervals.get(metric, 0.0) + field[0].intervals.get(metric, 0.0)
        if abs(trial.metrics[metric] - field[0].metrics[metric]) > reach:
            break
        count += 1
    return count


def _against_runner_up(record: StudyResults, field: list[Trial]) -> list[str]:
    metric = record.objectives[0].metric
    if len(field) < 2:
        return []
    first, second = field[:2]
    what = f"The runner-up, trial {second.number} ({text(estimate(second, metric))}),"
    if metric not in first.intervals or metric not in second.intervals:
        return [f"{what} may or may not be behind ({ONE_SEED})."]
    count = tied(field, metric)
    verdict = "does not overlap."
    if count > 1:
        verdict = (
            f"overlaps: the first {count} configurations cannot be told apart "
            f"at this number of seeds."
        )
    return [f"{what} has an interval that {verdict}", *_paired(record, first, second)]


def _paired(record: StudyResults, first: Trial, second: Trial) -> list[str]:
    """Trials share their seeds' noise, so the difference within a seed is the sharper measure."""
    metric, sign = record.objectives[0].metric, record.objectives[0].sign
    own, other = (
        {cell.seed: cell.metrics[metric] for cell in trial.cells if metric in cell.metrics}
        for trial in (first, second)
    )
    leads = [{metric: sign * (other[seed] - own[seed])} for seed in own if seed in other]
    means, halves = summarise([*leads])
    if metric not in halves:
        return []
    return [f"Seed by seed, the best leads by {text(Estimate(means[metric], halves[metric]))}."]


def _oracle(record: StudyResults, trial: Trial) -> str:
    what = configuration(trial, varied(record))
    value = text(estimate(trial, record.objectives[0].metric))
    return (
        f"Trial {trial.number} ({what}) measures {value}, but starts from training images: "
        f"an oracle, no contender."
    )
