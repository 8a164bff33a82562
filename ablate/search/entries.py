"""The trials of a search as plain data, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ablate.results import Value
from ablate.study.definition import Study

ENDED = ("complete", "pruned", "failed")
"""States of a trial that is not running any more."""


class Entry(NamedTuple):
    """A trial in the search's database."""

    number: int
    params: dict[str, Value]
    state: str  # running, complete, pruned or failed
    values: tuple[float, ...] = ()  # of the objectives; of a pruned trial, on the samples it has
    feasible: bool = True  # within all constraints
    evaluations: int = 0  # of the network, for single images, if the trial is not complete
    confirms: int | None = None  # the trial whose configuration it measures again

    @property
    def running(self) -> bool:
        return self.state == "running"


def searched(entries: Sequence[Entry]) -> list[Entry]:
    """The search's own trials, without those that measure a configuration again."""
    return [entry for entry in entries if entry.confirms is None]


def best(study: Study, entries: Sequence[Entry]) -> float | None:
    """The best value of the first objective so far."""
    done = [e for e in searched(entries) if e.state == "complete" and e.feasible]
    better = min if study.objectives[0].direction == "minimize" else max
    return better((entry.values[0] for entry in done), default=None)


def finished(entries: Sequence[Entry]) -> int:
    """How many trials are not running any more."""
    return sum(not entry.running for entry in entries)


def summary(study: Study, entries: Sequence[Entry]) -> dict[str, float]:
    """A study's results as metrics: trials by state, and the best value of each objective."""
    entries = searched(entries)
    metrics = {f"trials/{state}": 0.0 for state in ENDED}
    for entry in entries:
        metrics[f"trials/{entry.state}"] = metrics.get(f"trials/{entry.state}", 0.0) + 1
    done = [entry for entry in entries if entry.state == "complete" and entry.feasible]
    for index, objective in enumerate(study.objectives if done else ()):
        better = min if objective.direction == "minimize" else max
        top = better(done, key=lambda entry: entry.values[index])
        metrics[f"best/{objective.metric}"] = top.values[index]
        metrics[f"best/{objective.metric}/trial"] = float(top.number)
    return metrics
