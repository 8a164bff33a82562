"""StudyResults -> the sentences that answer the study's question."""

from __future__ import annotations

from collections import Counter

from ablate.report import confirmed, ladder, standing
from ablate.report.answers.contrast import contrast, declared
from ablate.report.knobs import distinguishing
from ablate.report.names import (
    Estimate,
    baseline_name,
    better,
    configuration,
    estimate,
    metric_label,
    metric_name,
    number,
    text,
    trial_name,
)
from ablate.report.ranking import contenders, front, ranking
from ablate.results import ERROR, INTERVAL, StudyResults, Trial, summarise

DIVERSITY = ("recall", "coverage")
NO_INTERVAL = "no interval"
"""Of records before 0.3 with a single seed."""


def state(results: StudyResults) -> str:
    """15 of 20 planned trials complete, 1 diverged, 1 failed, 1 running."""
    counts = Counter(trial.state for trial in results.trials)
    others = [s for s in ("diverged", "failed", "pruned", "repeated", "running") if counts[s]]
    done = f"{counts['complete']} of {results.planned} planned trials complete"
    return ", ".join([done, *(f"{counts[s]} {s}" for s in others)]) + "."


def answer(results: StudyResults) -> list[str]:
    """Items: first what the study asks, in one sentence; then what that rests on, what cannot be
    distinguished from the best, where the best comes from, what stands beside it. Oracles stand
    aside. What fresh seeds confirmed takes the place of the search's values."""
    ranked, field = ranking(results), contenders(results)
    if not ranked:
        return [_nothing_yet(results)]
    again, wanted = confirmed.confirmed_trial(results), declared(results)
    asked = contrast(results)
    if results.ladder:
        items = ladder.sentences(results) or [_winner(results, field)]
        for top in (trial for trial in ranked if trial.number == ladder.last_trial(results)):
            items += _beside(results, top, "The configuration of the last step")
    elif again is not None:
        named = wanted.name if wanted else ""
        items = [*asked, *confirmed.sentences(results, named, bool(named))]
        best = confirmed.searched_best(results)
        items += standing.sentences(results, best) if best else []
        items += _beside(results, again)
    else:
        items = [*asked, _winner(results, field)]
        others = standing.sentences(results, field[0]) if asked else []
        items += others or _against_runner_up(results, field)
        items += _beside(results, field[0])
    if results.leaks(ranked[0]):
        items.append(_oracle(results, ranked[0]))
    if len(results.objectives) > 1:
        names = " and ".join(metric_name(results, o.metric) for o in results.objectives)
        count = len(front(results))
        items.append(
            f"{count} trial{'s are' if count > 1 else ' is'} on the Pareto front of {names}."
        )
    return items


def _nothing_yet(results: StudyResults) -> str:
    """Why there is no answer: nothing has ended, or nothing ran to its end."""
    if any(trial.state == "running" for trial in results.trials) or not results.trials:
        return "No configuration is complete yet, so there is no answer yet."
    if len(results.trials) < results.planned:
        return "No configuration is complete yet, so there is no answer yet."
    return "No configuration ran to its end, so there is no answer."


def single_seed(results: StudyResults) -> bool:
    """Whether no complete trial has an interval."""
    metric, ranked = results.objectives[0].metric, ranking(results)
    return bool(ranked) and not any(metric in trial.intervals for trial in ranked)


def measured(results: StudyResults, trial: Trial) -> str:
    """KID 0.042 ± 0.017 (mean and 95 % interval over 3 seeds, 768 samples)."""
    metric = results.objectives[0].metric
    what = f"{metric_name(results, metric)} {text(estimate(trial, metric))}"
    if metric not in trial.intervals:
        return f"{what} ({NO_INTERVAL})"
    cells = [cell.metrics for cell in trial.cells if metric in cell.metrics]
    over = f"{len(cells)} seed{'s' * (len(cells) > 1)}"
    if all(metric + ERROR in cell for cell in cells):
        over += f", {sum(cell.get('samples', 0) for cell in cells):,.0f} samples"
    return f"{what} (mean and 95 % interval over {over}{_held(results, trial)})"


def _held(results: StudyResults, trial: Trial) -> str:
    """, of images, sampling and training by 3 training seeds; nothing for networks trained once."""
    trained = len(set(trial.training_seeds))
    return f", of {results.variation} by {trained} training seeds" if trained > 1 else ""


def _winner(results: StudyResults, field: list[Trial]) -> str:
    objective = results.objectives[0]
    name = f"{metric_label(results, objective.metric)} ({better(objective)})"
    count, aside = len(field), len(ranking(results)) - len(field)
    of = (
        f"Of {count} complete configurations{' that leak no data' * bool(aside)} the best by {name}"
    )
    which = of if count > 1 else "The only complete configuration"
    what = trial_name(results, field[0], distinguishing(results))
    return f"{which} is {what}, with {measured(results, field[0])}."


def _beside(results: StudyResults, trial: Trial, what: str = "It") -> list[str]:
    """It is better than a (0.2) and worse than b (0.001). Its recall is 0.65, …"""
    said = [*_against_baselines(results, trial, what), *_diversity(results, trial)]
    return [" ".join(said)] if said else []


def _against_baselines(results: StudyResults, trial: Trial, what: str) -> list[str]:
    metric = results.objectives[0].metric
    values = {
        baseline_name(name): Estimate(measured[metric], measured.get(metric + INTERVAL))
        for name, measured in results.baselines.items()
        if metric in measured
    }
    name_of = metric_name(results, metric)
    parts = [
        f"{_verdict(results, trial, value)} {name} ({name_of} {text(value)})"
        for name, value in values.items()
    ]
    if values and single_seed(results):  # without an interval nothing is better or worse
        beside = (f"{name} ({name_of} {text(value)})" for name, value in values.items())
        return [f"Beside it: {', '.join(beside)}."]
    return [f"{what} is {', and '.join(parts)}."] if parts else []


def _diversity(results: StudyResults, trial: Trial) -> list[str]:
    """Its recall is 0.65 and its coverage 0.40, those of held-out images 0.92 and 0.46: samples
    may be good and all alike, which KID hardly shows."""
    names = [name for name in DIVERSITY if name in trial.metrics]
    if not names or results.objectives[0].metric in DIVERSITY:
        return []
    own = " and ".join(f"its {name} is {text(estimate(trial, name))}" for name in names)
    real = [
        f"{' and '.join(number(measured[name], 3) for name in names)}"
        for baseline, measured in results.baselines.items()
        if baseline.startswith(("held-out", "training")) and all(n in measured for n in names)
    ]
    beside = f"; of real images, {real[0]}" if real else ""
    return [f"{own[0].upper()}{own[1:]}{beside}."]


def _verdict(results: StudyResults, trial: Trial, baseline: Estimate) -> str:
    """Better or worse only if the intervals do not overlap, as between configurations."""
    objective = results.objectives[0]
    metric = objective.metric
    gap = trial.metrics[metric] - baseline.value
    if abs(gap) <= trial.intervals.get(metric, 0.0) + (baseline.half or 0.0):
        return "indistinguishable from"
    return "better than" if objective.sign * gap < 0 else "worse than"


def tied(field: list[Trial], metric: str) -> int:
    """How many configurations, the best among them, have intervals that overlap the best one's."""
    best = field[0]
    return sum(
        abs(trial.metrics[metric] - best.metrics[metric])
        <= trial.intervals.get(metric, 0.0) + best.intervals.get(metric, 0.0)
        for trial in field
    )


def _against_runner_up(results: StudyResults, field: list[Trial]) -> list[str]:
    metric = results.objectives[0].metric
    if len(field) < 2:
        return []
    first, second = field[:2]
    what = f"The runner-up, trial {second.number} ({text(estimate(second, metric))}),"
    if metric not in first.intervals or metric not in second.intervals:
        return [f"{what} may or may not be behind ({NO_INTERVAL})."]
    count = tied(field, metric)
    verdict = "does not overlap."
    if count > 1:
        verdict = f"overlaps: {count} configurations cannot be distinguished by their intervals."
    return [f"{what} has an interval that {verdict}", *_paired(results, first, second)]


def _paired(results: StudyResults, first: Trial, second: Trial) -> list[str]:
    """Trials share the noise of a seed, so the difference within a seed is more precise."""
    metric, sign = results.objectives[0].metric, results.objectives[0].sign
    best, other = (
        {(c.seed, c.training_seed): c.metrics[metric] for c in trial.cells if metric in c.metrics}
        for trial in (first, second)
    )
    both = [key for key in best if key in other]
    leads = [{metric: sign * (other[key] - best[key])} for key in both]
    means, halves = summarise(leads, [training_seed for _, training_seed in both])
    if metric not in halves:
        return []
    return [f"Seed by seed, the best leads by {text(Estimate(means[metric], halves[metric]))}."]


def _oracle(results: StudyResults, trial: Trial) -> str:
    what = configuration(results, trial, distinguishing(results))
    value = text(estimate(trial, results.objectives[0].metric))
    return (
        f"Trial {trial.number} ({what}) measures {value}, but starts from training images: "
        f"an oracle, not a contender."
    )
