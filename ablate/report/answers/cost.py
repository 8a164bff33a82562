"""`answers = "kid per nfe"`: how good for which cost, and at which cost more buys nothing."""

from __future__ import annotations

from ablate.core.asked import Asked
from ablate.report.answers.wording import UNKNOWN, gap, listed, sign_of, size, value_again, value_of
from ablate.report.names import metric_name, text
from ablate.report.paired import fitting_group
from ablate.report.ranking import contenders
from ablate.results import StudyResults, Trial


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """The cheapest that cannot be distinguished from the best, then the best at each cost that is
    better than all cheaper ones."""
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
    return [*_enough(results, climb, metric, cost), f"The best for its cost: {'; '.join(steps)}."]


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
    """From where on no difference from the best shows; never that there is none."""
    *cheaper, best = climb
    name = metric_name(results, cost)
    spent = f"{text(best.metrics[cost])} {name} ({_sampler(best)})"
    top = f"{value_of(results, best, metric)} at {spent}"
    gaps = [(trial, gap(results, trial, best, metric)) for trial in cheaper]
    if any(each is None or each.half is None for _, each in gaps):
        return [f"The best is {top}; whether fewer {name} are worse is not known ({UNKNOWN})."]
    known = [(trial, each) for trial, each in gaps if each is not None]
    alike = [(trial, each) for trial, each in known if not each.clear]
    if alike:
        trial, each = alike[0]
        fresh = fitting_group(results, [trial.number, best.number], metric).confirmed
        value = value_again if fresh else value_of  # those that the difference is between
        how = f"{each.how}, 95 %{', on fresh seeds' * fresh}"
        return [
            f"From {_spent(trial, cost, name)} on ({_sampler(trial)},"
            f" {value(results, trial, metric)}) no difference from the best of all shows:"
            f" {value(results, best, metric)} at {spent}, a difference of {size(each)} ({how})."
        ]
    if not known:
        return [f"The best is also the cheapest: {top}."]
    behind = [f"{text(trial.metrics[cost])} {name} by {size(each)}" for trial, each in known]
    worse = f"every cheaper one is worse: {listed(behind[-4:])} ({known[0][1].how}, 95 %)"
    return [f"The best is {top}, and {worse}."]


def _spent(trial: Trial, cost: str, name: str) -> str:
    """9 network evaluations a sample (NFE): in words where they are first named"""
    spelt = f"network evaluations a sample ({name})" if cost == "nfe" else name
    return f"{text(trial.metrics[cost])} {spelt}"


def _sampler(trial: Trial) -> str:
    return str(trial.params.get("sampler", f"trial {trial.number}"))
