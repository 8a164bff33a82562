"""What a study gave, as plain data: written and read by `tracking`, shown by tables and reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple

from ablate.core.coarseness import Coarseness
from ablate.core.errors import UserError
from ablate.core.nested import half_width

Value = str | int | float
INTERVAL, ERROR = ".interval", ".error"
"""Endings of the metrics that hold another's half-width, or a cell's standard error."""

SAMPLES, TRAJECTORY, NEIGHBOURS = "samples.png", "trajectory.png", "neighbours.png"
IMAGES, FEATURES = "images.npz", "features.npz"
"""Artifacts of a cell: pictures, its first images and the features of all of them."""

STUDY, PROTOCOLS, VOCABULARY = "study.json", "protocols.json", "vocabulary.json"
IMPORTANCE, CONFIRMATION, LADDER = "importance.json", "confirmation.json", "ladder.json"
SUMMARY, COMPARISONS = "summary.json", "comparisons.json"
"""Artifacts of a study: what was run, how it was measured, what its names mean, what mattered, what
fresh seeds confirmed, what each step of a ladder did, how it ended with which best trial, what
trials have in common."""


class Cell(NamedTuple):
    """One configuration drawn with one seed: the unit of work, run once and only once."""

    run_id: str  # where its artifacts are
    seed: int
    state: str
    metrics: dict[str, float]
    training_seed: int | None = None  # of the network that it samples; None: the bundle's network


class Trial(NamedTuple):
    """One configuration. Its metrics are means over its cells, `intervals` their half-widths."""

    run_id: str
    number: int
    state: str  # complete, diverged, failed, pruned, repeated or running
    params: dict[str, Value]
    metrics: dict[str, float]
    intervals: dict[str, float]  # 95 %: what other random numbers would give, see `variation`
    reason: str | None  # of a state other than complete
    cells: list[Cell]
    coarseness: Coarseness | None = None  # of a literal run; older records have none

    @property
    def training_seeds(self) -> list[int | None]:
        """The training seed of each cell."""
        return [cell.training_seed for cell in self.cells]

    @property
    def too_coarse(self) -> bool:
        """Whether its grid is too coarse for its literal steps."""
        return self.coarseness is not None and self.coarseness.warns


@dataclass(frozen=True)
class Objective:
    """A metric to optimise, and which way is better."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # in study files

    metric: str
    direction: Literal["minimize", "maximize"]

    @property
    def sign(self) -> int:
        """What the metric is multiplied by so that lower is better."""
        return 1 if self.direction == "minimize" else -1


@dataclass(frozen=True)
class Vocabulary:
    """What a reader must know of the names in a study's results, as they were when it was run."""

    labels: Mapping[str, str]  # metric -> how reports write it
    leaking: frozenset[str]  # initialisations that start from training images
    knobs: Mapping[str, str] = field(default_factory=dict)  # a sampler's own knob -> what it is


Importance = dict[str, dict[str, dict[str, float]]]
"""Objective -> method -> knob -> share of what moves the objective."""


OLD_VOCABULARY = Vocabulary({}, frozenset({"forward-data"}))
"""Of studies that were recorded without one, by versions before 0.2."""


class StudyResults(NamedTuple):
    """A study with its trials, finished or not."""

    run_id: str
    name: str
    budget: str
    question: str
    hash: str  # of the resolved study
    spec: dict[str, Any]  # the resolved study
    objectives: list[Objective]
    planned: int  # trials
    protocols: dict[str, dict[str, Value]]  # how each metric was measured
    baselines: dict[str, dict[str, float]]  # name -> metrics: what to compare the trials with
    tags: dict[str, str]  # versions, commit, device, bundle
    trials: list[Trial]  # by number
    importance: Importance = {}  # noqa: RUF012 - read only
    vocabulary: Vocabulary = OLD_VOCABULARY
    confirmations: list[Trial] = []  # noqa: RUF012 - configurations drawn again on fresh seeds
    confirmation: dict[str, Any] = {}  # noqa: RUF012 - how these compare; empty before the end
    ladder: dict[str, Any] = {}  # noqa: RUF012 - the effect of each step; empty of other studies
    comparisons: dict[str, Any] = {}  # noqa: RUF012 - covariances of trials; empty in old records
    at_work: float = 0.0  # seconds in which a cell was drawn

    def ranked(self) -> list[Trial]:
        """Complete trials that keep to all constraints, best first by the first objective."""
        objective = self.objectives[0]
        metric = objective.metric
        done = [t for t in self.trials if t.state == "complete" and metric in t.metrics]
        done = [t for t in done if not self.violated(t)]
        return sorted(done, key=lambda t: objective.sign * t.metrics[metric])

    def progress(self) -> str:
        """How far the study is: "quick: 3 of 24 trials"."""
        done = sum(trial.state not in ("running", "interrupted") for trial in self.trials)
        return f"{self.budget}: {done} of {self.planned} trials"

    def violated(self, trial: Trial) -> list[str]:
        """The constraints that a trial does not keep to."""
        bounds = self.spec.get("constraints", {})
        return [name for name, most in bounds.items() if trial.metrics.get(name, 0.0) > most]

    def leaks(self, trial: Trial) -> bool:
        """Whether the trial starts from training images."""
        return trial.params.get("init") in self.vocabulary.leaking

    @property
    def variation(self) -> str:
        """What the intervals of the trials hold: networks that were trained once add no training to
        them."""
        several = any(len(set(trial.training_seeds)) > 1 for trial in self.trials)
        return "images, sampling and training" if several else "images and sampling"

    @property
    def published(self) -> list[dict[str, Any]]:
        """Values that others published for the same knobs: {knobs, metrics} each."""
        found: list[dict[str, Any]] = self.spec.get("published") or self.spec.get("marks") or []
        return found  # "marks" in records that versions before 0.2 wrote


def joined(records: Sequence[StudyResults]) -> StudyResults:
    """Several studies as one, each trial with its study as a knob; an error if they cannot be
    ranked together because their metrics or protocols differ."""
    first, *others = records
    for other in others:
        if other.objectives[0] != first.objectives[0]:
            goals = (
                f"{record.objectives[0].metric} {record.objectives[0].direction}"
                for record in (first, other)
            )
            raise UserError(
                f"{first.name} and {other.name} have different objectives: {'; '.join(goals)}"
            )
        both = first.protocols.keys() & other.protocols.keys()
        for metric in (name for name in both if not name.startswith("nn_")):  # these do not rank
            what = f"{metric} of {first.name} and {other.name}: "
            require_same(first.protocols[metric], other.protocols[metric], what)
    return first._replace(
        name=" and ".join(record.name for record in records),
        question=" ".join(record.question for record in records),
        planned=sum(record.planned for record in records),
        spec={**first.spec, "answers": ""},  # each asks its own
        trials=[
            trial._replace(params={"study": record.name, **trial.params})
            for record in records
            for trial in record.trials
        ],
        baselines={
            f"{record.name}: {name}": found
            for record in records
            for name, found in record.baselines.items()
        },
        confirmations=[],
        confirmation={},
        ladder={},
        comparisons={},
    )


def require_same(first: Mapping[str, object], second: Mapping[str, object], what: str = "") -> None:
    """Raise an error that says how two protocols differ, if they do."""
    named = [name for name in {**first, **second} if name != "hash"]
    different = [
        f"{name}: {first.get(name)} against {second.get(name)}"
        for name in named
        if first.get(name) != second.get(name)
    ]
    if different:
        raise UserError(
            f"{what}protocols differ, so the numbers cannot be ranked together"
            f" ({'; '.join(different)})"
        )


def summarise(
    cells: Sequence[Mapping[str, float]], training_seeds: Sequence[int | None] = ()
) -> tuple[dict[str, float], dict[str, float]]:
    """(means, half-widths of 95 % intervals) over cells, of every metric all of them have.

    Where cells have standard errors, from the influence of every image, these are pooled: with
    three seeds that is far more certain than the spread of three means, and one seed is enough.
    Other metrics, and those of older records, get Student's interval over seeds, if there are
    several. With `training_seeds`, one for each cell, intervals hold training, too; see
    `half_width`.
    """
    shared = [name for name in cells[0] if all(name in cell for cell in cells)] if cells else []
    errors = {name.removesuffix(ERROR) for name in shared if name.endswith(ERROR)}
    shared = [name for name in shared if not name.endswith(ERROR)]
    means = {name: fmean(cell[name] for cell in cells) for name in shared}
    widths: dict[str, float] = {}
    for name in shared:
        pooled = None
        if name in errors:
            pooled = math.hypot(*(cell[name + ERROR] for cell in cells)) / len(cells)
        width = half_width([cell[name] for cell in cells], training_seeds, pooled)
        widths |= {} if width is None else {name: width}
    return means, widths
