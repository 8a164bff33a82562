"""A study file as a validated model: unknown keys and contradictions are errors of one line."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from ablate.core.errors import UserError
from ablate.core.unknown_names import choice_of, unknown
from ablate.core.validation import one_line
from ablate.generate.coordinates import paper_knob
from ablate.generate.known_knobs import known_knobs
from ablate.metrics.registry import METRICS, objectives
from ablate.results import Objective
from ablate.study.answers import check as check_answers
from ablate.study.definition import (
    COMBINATIONS,
    Combination,
    Confirm,
    ExtractorName,
    Published,
    Step,
)
from ablate.study.domain import Domain, Model, Scalar, short_form
from ablate.study.ladder import check as check_ladder
from ablate.study.methods import METHODS
from ablate.study.train_knobs import check_recipe, is_train, written_out

BUDGETS = ("smoke", "quick", "full")
WHOLE = {"L", "n", "levels", "cost", "N", "order"}
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Bound = Annotated[float, Field(allow_inf_nan=False)]


DIVERGED = "diverged"
"""A constraint may bound it too, though it is no objective: 1 for a cell that diverged."""


def objective(metric: str, direction: str | None = None) -> Objective:
    """The objective of a metric, which knows which way is better; a contradiction is an error."""
    if metric not in objectives():
        raise ValueError(unknown("metric", metric, objectives()))
    better = METRICS[metric].direction
    if direction not in (None, better):
        raise ValueError(f"direction = {direction!r}, but {metric} is to {better}; leave it out")
    return Objective(metric, better)


def _with_direction(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("metric"), str) and len(value) <= 2:
        direction = value.get("direction")
        if {*value} <= {"metric", "direction"} and isinstance(direction, str | None):
            return objective(value["metric"], direction)
    return value


def _or_nothing(value: Any) -> Any:
    """`confirm = false` is short for `confirm = { top = 0 }`."""
    return {"top": 0, "named": {}} if value is False else value


class Budget(Model):
    """How much of a study is run; `fixed`, `search` and `bundle` override those of the study."""

    samples: int = Field(ge=2)
    rungs: tuple[Annotated[int, Field(ge=2)], ...] = ()  # fewer samples, to prune after
    trials: int | None = Field(None, ge=1)  # None: the whole grid
    minutes: float | None = Field(None, gt=0, allow_inf_nan=False)
    evaluations: int | None = Field(None, ge=1)
    seeds: int | None = Field(None, ge=1)  # how many of the study's seeds, from the first
    fixed: dict[str, Scalar] = Field(default_factory=dict)
    search: dict[str, Annotated[Domain, BeforeValidator(short_form)]] = Field(default_factory=dict)
    bundle: str | None = None
    confirm: Annotated[Confirm, BeforeValidator(_or_nothing)] | None = None


class StudyFile(Model):
    """The content of a study file."""

    question: str = Field(min_length=1)
    answers: str = ""  # the contrast that the question is about, see `core.asked`
    bundle: str
    recipe: str = ""  # of the networks that the study trains; empty: it samples the bundle's
    training_seeds: tuple[Seed, ...] = ()  # seed s has the (s mod T)-th of these T
    method: str = "tpe"
    seed: Seed = 0
    seeds: tuple[Seed, ...] = (0, 1, 2)
    reference: Literal["train", "test"] = "train"
    extractor: ExtractorName | None = None  # None: by budget, device and family
    also: tuple[Literal["inception"], ...] = ()
    objectives: tuple[Annotated[Objective, BeforeValidator(_with_direction)], ...] = (
        objective("kid"),
    )
    fixed: dict[str, Scalar] = Field(default_factory=dict)
    search: dict[str, Annotated[Domain, BeforeValidator(short_form)]] = Field(default_factory=dict)
    rows: tuple[dict[str, Scalar], ...] = ()
    first: tuple[dict[str, Scalar], ...] = ()
    base: dict[str, Scalar] = Field(default_factory=dict)  # of a ladder
    steps: tuple[Step, ...] = ()
    combinations: tuple[Combination, ...] = COMBINATIONS  # of a ladder's steps
    confirm: Annotated[Confirm, BeforeValidator(_or_nothing)] = Confirm()
    constraints: dict[str, Bound] = Field(default_factory=dict)  # metric -> the most it may be
    published: tuple[Published, ...] = ()
    budgets: dict[Literal[BUDGETS], Budget]  # type: ignore[valid-type]

    @field_validator("method")
    @classmethod
    def _known_method(cls, method: str) -> str:
        if method not in METHODS:
            raise ValueError(METHODS.unknown(method))
        return method

    @field_validator("constraints")
    @classmethod
    def _known_bounds(cls, constraints: dict[str, float]) -> dict[str, float]:
        known = (*objectives(), DIVERGED)
        for name in constraints:
            if name not in known:
                raise ValueError(f"constraints.{name} is unknown; {choice_of(name, known)}")
        return constraints

    @model_validator(mode="after")
    def _consistent(self) -> StudyFile:
        self._check_knobs()
        self._check_method()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be one or more different numbers, not {list(self.seeds)}")
        if not self.combinations:
            raise ValueError(f"combinations is empty; known: {', '.join(COMBINATIONS)}")
        if not self.objectives:
            raise ValueError("objectives is empty")
        if len({o.metric for o in self.objectives}) < len(self.objectives):
            raise ValueError("an objective's metric repeats")
        if not self.budgets:
            raise ValueError(f"budgets is empty; known: {', '.join(BUDGETS)}")
        self._check_conditions()
        self._check_answers()
        return self

    def _check_knobs(self) -> None:
        known = known_knobs()
        places: list[tuple[str, Mapping[str, Any]]] = [("fixed", self.fixed)]
        places += [("search", self.search), *((f"rows.{i}", r) for i, r in enumerate(self.rows))]
        places.append(("base", self.base))
        places += ((f"steps.{i}", step.knobs) for i, step in enumerate(self.steps))
        places += ((f"first.{i}", row) for i, row in enumerate(self.first))
        places += ((f"published.{i}.knobs", row.knobs) for i, row in enumerate(self.published))
        for place, knobs in places:
            for knob in knobs:
                if knob not in known and not is_train(knob):
                    raise ValueError(f"{place}.{knob}: no such knob; {choice_of(knob, known)}")
        named = [knob for _, knobs in places for knob in knobs]
        check_recipe(self.recipe, self.training_seeds, named)
        for knob in self.search:
            if knob in self.fixed:
                raise ValueError(f"{knob} is both fixed and searched")
        for knob in WHOLE & set(self.search):
            if self.search[knob].choices is None and not self.search[knob].whole:
                raise ValueError(f"search.{knob}: low and high must be whole numbers")

    def _check_method(self) -> None:
        method = METHODS[self.method]
        if method.ladder:
            self._check_ladder()
            return
        if self.base or self.steps or self.combinations != COMBINATIONS:
            raise ValueError(f"base and steps make a ladder; method {self.method!r} has none")
        if not self.search and not self.rows:
            raise ValueError("search and rows are empty: there is nothing to ablate")
        if self.rows and not method.finite:
            raise ValueError(f"rows are an axis of a grid; method {self.method!r} has none")
        if not self.search and not method.finite:
            raise ValueError(f"search is empty: method {self.method!r} has nothing to search")
        most = method.most_objectives
        if most is not None and len(self.objectives) > most:
            raise ValueError(
                f"method {self.method!r} takes {'one objective' if most == 1 else most}, not"
                f" {len(self.objectives)}"
            )

    def _check_ladder(self) -> None:
        for key in ("search", "rows", "first"):
            if getattr(self, key):
                raise ValueError(f"{key}: method {self.method!r} has base and steps instead")
        for name, budget in self.budgets.items():
            if budget.rungs or budget.search:
                key = "rungs" if budget.rungs else "search"
                raise ValueError(
                    f"budgets.{name}.{key}: method {self.method!r} measures every configuration of"
                    " its ladder on all samples"
                )
        fixed = [self.fixed, *(budget.fixed for budget in self.budgets.values())]
        check_ladder(self.base, self.steps, {knob: v for each in fixed for knob, v in each.items()})

    def _check_answers(self) -> None:
        """A knob that a coordinate such as `annealing` stands for may be asked about, too."""
        tables: list[Mapping[str, Any]] = [self.search, self.base, *self.rows]
        tables += [step.knobs for step in self.steps]
        written = {knob for table in tables for knob in table}
        check_answers(
            self.answers,
            written | {paper_knob(knob) for knob in written},
            self.confirm.named,
            ladder=METHODS[self.method].ladder,
            published=bool(self.published),
        )

    def _check_conditions(self) -> None:
        known = {*self.search, *self.fixed, *(knob for row in self.rows for knob in row)}
        for knob, domain in self.search.items():
            for parent in domain.when:
                if parent not in known or parent == knob:
                    raise ValueError(f"search.{knob}.when.{parent}: not a knob of this study")
        try:
            graph = {knob: list(domain.when) for knob, domain in self.search.items()}
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise ValueError(f"search: conditions go in a circle: {circle}") from None


def validated(tables: dict[str, Any], where: str) -> StudyFile:
    try:
        return StudyFile.model_validate(written_out(tables))
    except ValidationError as error:
        raise UserError(f"{where}: {one_line(error)}") from None
