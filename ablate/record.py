"""What a study left behind, as plain data: written by `tracking`, read by results and reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from ablate.errors import UserError

Value = str | int | float
INTERVAL = ".interval"
"""Ending of the metric that holds another's half-width."""


class Cell(NamedTuple):
    """One configuration drawn with one seed: the unit of work, run once and only once."""

    run_id: str  # its artifacts: samples.png, trajectory.png, images.npz, features.npz
    seed: int
    state: str
    metrics: dict[str, float]


class Trial(NamedTuple):
    """One configuration. Its metrics are means over its cells, `intervals` their half-widths."""

    run_id: str
    number: int
    state: str  # complete, diverged, failed, pruned, repeated or running
    params: dict[str, Value]
    metrics: dict[str, float]
    intervals: dict[str, float]  # 95 %, Student's t over seeds; absent with a single seed
    reason: str | None  # of a state other than complete
    cells: list[Cell]


class Objective(NamedTuple):
    metric: str
    direction: str  # minimize or maximize


Importance = dict[str, dict[str, dict[str, float]]]
"""Objective -> method -> knob -> share of what moves the objective."""


class StudyRecord(NamedTuple):
    """A study as MLflow knows it."""

    run_id: str
    name: str
    budget: str
    question: str
    hash: str  # of the resolved study
    spec: dict[str, Any]  # the resolved study
    objectives: list[Objective]
    planned: int  # trials
    protocols: dict[str, dict[str, Value]]  # how each metric was measured
    yardsticks: dict[str, dict[str, float]]  # name -> metrics: what to hold the trials against
    tags: dict[str, str]  # versions, commit, device, bundle
    trials: list[Trial]  # by number
    importance: Importance = {}  # noqa: RUF012 - read only

    def ranked(self) -> list[Trial]:
        """Complete trials that keep to all constraints, best first by the first objective."""
        metric, direction = self.objectives[0]
        done = [t for t in self.trials if t.state == "complete" and metric in t.metrics]
        done = [t for t in done if not self.violated(t)]
        return sorted(done, key=lambda t: t.metrics[metric], reverse=direction == "maximize")

    def violated(self, trial: Trial) -> list[str]:
        """The constraints that a trial does not keep to."""
        bounds = self.spec.get("constraints", {})
        return [name for name, most in bounds.items() if trial.metrics.get(name, 0.0) > most]


def joined(records: Sequence[StudyRecord]) -> StudyRecord:
    """Several studies as one ranking, every trial saying its study; refused where they were not
    measured alike."""
    first, *others = records
    for other in others:
        if other.objectives[0] != first.objectives[0]:
            goals = (" ".join(record.objectives[0]) for record in (first, other))
            raise UserError(
                f"{first.name} and {other.name} seek different things: {'; '.join(goals)}"
            )
        for metric in first.protocols.keys() & other.protocols.keys():
            what = f"{metric} of {first.name} and {other.name}: "
            require_same(first.protocols[metric], other.protocols[metric], what)
    return first._replace(
        name=" and ".join(record.name for record in records),
        question=" ".join(record.question for record in records),
        trials=[
            trial._replace(params={"study": record.name, **trial.params})
            for record in records
            for trial in record.trials
        ],
        yardsticks={
            f"{record.name}: {name}": found
            for record in records
            for name, found in record.yardsticks.items()
        },
    )


def require_same(first: Mapping[str, object], second: Mapping[str, object], what: str = "") -> None:
    """Refuse to compare what was measured by different protocols, and say what differs."""
    named = [name for name in {**first, **second} if name != "hash"]
    different = [
        f"{name}: {first.get(name)} against {second.get(name)}"
        for name in named
        if first.get(name) != second.get(name)
    ]
    if different:
        told = "; ".join(different)
        raise UserError(f"{what}protocols differ and cannot be ranked together ({told})")


STUDENT_975 = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""97.5 % quantile of Student's t by degrees of freedom; reports should not import scipy for it."""


def summarise(cells: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """(means, half-widths of 95 % intervals) over cells, of every metric all of them have."""
    shared = [name for name in cells[0] if all(name in cell for cell in cells)] if cells else []
    means = {name: fmean(cell[name] for cell in cells) for name in shared}
    count = len(cells)
    if count < 2:
        return means, {}
    quantile = STUDENT_975[count - 1] if count <= len(STUDENT_975) else 1.96 + 2.5 / (count - 1)
    widths = {
        name: quantile * stdev(cell[name] for cell in cells) / math.sqrt(count) for name in shared
    }
    return means, widths
