"""`answers = "kid per nfe"`: how good for which cost, and at which cost more buys nothing."""

from __future__ import annotations

from ablate.core.asked import Asked
from ablate.report.answers.wording import UNKNOWN, gap, listed, sign_of, size, value_of
from ablate.report.names import metric_name, text
from ablate.report.ranking import contenders
from ablate.results import StudyResults, Trial


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """The best at each cost that is better than all cheaper ones, and the cheapest that cannot be
    distinguished from the best."""
    metric, cost = wanted.metrics
    climb = best_by_cost(results, metric, cost)
    if not climb:
        return ["No configuration has both metrics yet."]
    name = metric_name(results, cost)
    steps = [
        f"{text(trial.metrics[cost])} {name}: {value_of(results, trial, metric)}"
        f" ({_sampler(trial)})"
        for trial in climb
    ]
    return [f"The best for its cost: {'; '.join(steps)}.", *_enough(results, climb, metric, cost)]


def best_by_cost(results: StudyResults, metric: str, cost: str) -> list[Trial]:
    """The trials that are better than every cheaper one, the cheapest first."""
    sign = sign_of(results, metric)
    having = [t for t in contenders(results) if metric in t.metrics and cost in t.metrics]
    found: list[Trial] = []
    for trial in sorted(having, key=lambda t: (t.metrics[cost], sign * t.metrics[metric])):
        if not found or sign * trial.metrics[metric] < sign * found[-1].metrics[metric]:
            found.append(trial)
    return found


def _enough(results: StudyResults, climb: list[Trial], metric: str, cost: str) -> list[str]:
    *cheaper, best = climb
    name = metric_name(results, cost)
    gaps = [(trial, gap(results, trial, best, metric)) for trial in cheaper]
    if any(each is None or each.half is None for _, each in gaps):
        return [f"How many are enough cannot be said ({UNKNOWN})."]
    alike = [(trial, each) for trial, each in gaps if each is not None and not each.clear]
    if alike:
        trial, each = alike[0]
        return [
            f"{text(trial.metrics[cost])} {name} are enough ({_sampler(trial)}): the best of all,"
            f" with {text(best.metrics[cost])}, differs by {size(each)} ({each.how}), which is no"
            " difference that shows."
        ]
    known = [(trial, each) for trial, each in gaps if each is not None]
    behind = [f"{text(trial.metrics[cost])} by {size(each)}" for trial, each in known]
    if not behind:
        return []
    return [
        f"Every step up to {text(best.metrics[cost])} {name} pays: fewer are worse,"
        f" {listed(behind)} ({known[0][1].how})."
    ]


def _sampler(trial: Trial) -> str:
    return str(trial.params.get("sampler", f"trial {trial.number}"))
