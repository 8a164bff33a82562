"""StudyResults -> the sentences that answer the study's question."""

from __future__ import annotations

from collections import Counter

from ablate.report.knobs import varied
from ablate.report.names import (
    Estimate,
    better,
    configuration,
    estimate,
    metric_label,
    metric_name,
    text,
    trial_name,
)
from ablate.report.ranking import contenders, front, ranking
from ablate.results import INTERVAL, StudyResults, Trial, summarise

ONE_SEED = "one seed: no interval"


def state(results: StudyResults) -> str:
    """15 of 20 planned trials complete, 1 diverged, 1 failed, 1 running."""
    counts = Counter(trial.state for trial in results.trials)
    others = [s for s in ("diverged", "failed", "pruned", "repeated", "running") if counts[s]]
    done = f"{counts['complete']} of {results.planned} planned trials complete"
    return ", ".join([done, *(f"{counts[s]} {s}" for s in others)]) + "."


def answer(results: StudyResults) -> list[str]:
    """Sentences: the best, against the baselines, against the runner-up; oracles stand aside."""
    ranked, field = ranking(results), contenders(results)
    if not ranked:
        return ["No configuration is complete yet, so there is no answer yet."]
    sentences = [_winner(results, field), *_against_baselines(results, field[0])]
    sentences += _against_runner_up(results, field)
    if results.leaks(ranked[0]):
        sentences.append(_oracle(results, ranked[0]))
    if len(results.objectives) > 1:
        names = " and ".join(metric_name(results, o.metric) for o in results.objectives)
        sentences.append(f"Trials on the Pareto front of {names}: {len(front(results))}.")
    return sentences


def single_seed(results: StudyResults) -> bool:
    """Whether no complete trial has an interval."""
    metric, ranked = results.objectives[0].metric, ranking(results)
    return bool(ranked) and not any(metric in trial.intervals for trial in ranked)


def measured(results: StudyResults, trial: Trial) -> str:
    """KID 0.042 ± 0.017 (mean and 95 % interval over 3 seeds)."""
    metric = results.objectives[0].metric
    what = f"{metric_name(results, metric)} {text(estimate(trial, metric))}"
    if metric not in trial.intervals:
        return f"{what} ({ONE_SEED})"
    count = sum(metric in cell.metrics for cell in trial.cells)
    return f"{what} (mean and 95 % interval over {count} seeds)"


def _winner(results: StudyResults, field: list[Trial]) -> str:
    objective = results.objectives[0]
    name = f"{metric_label(results, objective.metric)} ({better(objective)})"
    count, aside = len(field), len(ranking(results)) - len(field)
    of = (
        f"Of {count} complete configurations{' that leak no data' * bool(aside)} the best by {name}"
    )
    which = of if count > 1 else "The only complete configuration"
    what = trial_name(results, field[0], varied(results))
    return f"{which} is {what}, with {measured(results, field[0])}."


def _against_baselines(results: StudyResults, trial: Trial) -> list[str]:
    """It is better than a (0.2) and worse than b (0.001)."""
    metric = results.objectives[0].metric
    values = {
        name: Estimate(measured[metric], measured.get(metric + INTERVAL))
        for name, measured in results.baselines.items()
        if metric in measured
    }
    parts = [
        f"{_verdict(results, trial, value)} {name} ({text(value)})"
        for name, value in values.items()
    ]
    return [f"It is {', and '.join(parts)}."] if parts else []


def _verdict(results: StudyResults, trial: Trial, baseline: Estimate) -> str:
    """Better or worse only if the intervals do not overlap, as between configurations."""
    objective = results.objectives[0]
    metric = objective.metric
    gap = trial.metrics[metric] - baseline.value
    if abs(gap) <= trial.intervals.get(metric, 0.0) + (baseline.half or 0.0):
        return "indistinguishable from"
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


def _against_runner_up(results: StudyResults, field: list[Trial]) -> list[str]:
    metric = results.objectives[0].metric
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
            f"overlaps: the first {count} configurations cannot be distinguished "
            f"at this number of seeds."
        )
    return [f"{what} has an interval that {verdict}", *_paired(results, first, second)]


def _paired(results: StudyResults, first: Trial, second: Trial) -> list[str]:
    """Trials share the noise of a seed, so the difference within a seed is more precise."""
    metric, sign = results.objectives[0].metric, results.objectives[0].sign
    best, other = (
        {cell.seed: cell.metrics[metric] for cell in trial.cells if metric in cell.metrics}
        for trial in (first, second)
    )
    leads = [{metric: sign * (other[seed] - best[seed])} for seed in best if seed in other]
    means, halves = summarise(leads)
    if metric not in halves:
        return []
    return [f"Seed by seed, the best leads by {text(Estimate(means[metric], halves[metric]))}."]


def _oracle(results: StudyResults, trial: Trial) -> str:
    what = configuration(results, trial, varied(results))
    value = text(estimate(trial, results.objectives[0].metric))
    return (
        f"Trial {trial.number} ({what}) measures {value}, but starts from training images: "
        f"an oracle, not a contender."
    )
