"""A study file: text in, `Study` out, every mistake one line with file, key, rule and value."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ablate.errors import UserError
from ablate.settings import KNOBS
from ablate.space import Domain, Model, Scalar, short_form
from ablate.spec import Method, Objective, Study, one_line

BUDGETS = ("smoke", "quick", "full")
WHOLE = {"L", "n", "levels"}
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Budget(Model):
    """How much of a study is run; `fixed` and `bundle` override the study's own."""

    samples: int = Field(ge=2)
    trials: int | None = Field(None, ge=1)  # None: the whole grid
    seeds: int | None = Field(None, ge=1)  # the first so many of the study's
    fixed: dict[str, Scalar] = Field(default_factory=dict)
    bundle: str | None = None


class StudyFile(Model):
    """A study as its file has it."""

    question: str = Field(min_length=1)
    bundle: str
    method: Method = "tpe"
    seed: Seed = 0
    seeds: tuple[Seed, ...] = (0, 1, 2)
    reference: Literal["train", "test"] = "train"
    objectives: tuple[Objective, ...] = (Objective(metric="kid"),)
    fixed: dict[str, Scalar] = Field(default_factory=dict)
    search: dict[str, Annotated[Domain, BeforeValidator(short_form)]]
    budgets: dict[Literal[BUDGETS], Budget]  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _consistent(self) -> StudyFile:
        for place, knobs in (("fixed", self.fixed), ("search", self.search)):
            for knob in knobs:
                if knob not in KNOBS:
                    raise ValueError(f"{place}.{knob}: no such knob; known: {', '.join(KNOBS)}")
        for knob in self.search:
            if knob in self.fixed:
                raise ValueError(f"{knob} is both fixed and searched")
        if not self.search:
            raise ValueError("search is empty: there is nothing to ablate")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be one or more different numbers, not {list(self.seeds)}")
        if not self.objectives:
            raise ValueError("objectives is empty")
        if len({o.metric for o in self.objectives}) < len(self.objectives):
            raise ValueError("an objective's metric repeats")
        if not self.budgets:
            raise ValueError(f"budgets is empty; known: {', '.join(BUDGETS)}")
        if self.method == "cmaes" and len(self.objectives) > 1:
            raise ValueError(f"method 'cmaes' takes one objective, not {len(self.objectives)}")
        for knob in WHOLE & set(self.search):
            if self.search[knob].choices is None and not self.search[knob].whole:
                raise ValueError(f"search.{knob}: low and high must be whole numbers")
        self._check_conditions()
        return self

    def _check_conditions(self) -> None:
        for knob, domain in self.search.items():
            for parent in domain.when:
                if parent not in {*self.search, *self.fixed} or parent == knob:
                    raise ValueError(f"search.{knob}.when.{parent}: not a knob of this study")
        try:
            graph = {knob: list(domain.when) for knob, domain in self.search.items()}
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise ValueError(f"search: conditions go in a circle: {circle}") from None


def parse(text: str, name: str, budget: str, where: str = "") -> Study:
    """A study file's text -> the study of one budget."""
    where = where or f"{name}.toml"
    return resolve(_validated(_toml(text, where), where), name, budget, where)


def resolve(
    file: StudyFile, name: str, budget: str, where: str, trials: int | None = None
) -> Study:
    """The study of one budget; every configuration it allows is valid."""
    if budget not in file.budgets:
        have = ", ".join(file.budgets)
        raise UserError(f"{where}: budgets.{budget} is not there; the study has {have}")
    chosen = file.budgets[budget]
    if trials is not None:
        chosen = chosen.model_copy(update={"trials": trials})
    for knob in chosen.fixed:
        if knob not in KNOBS or knob in file.search:
            raise UserError(
                f"{where}: budgets.{budget}.fixed.{knob}: not a fixed knob of this study"
            )
    study = Study(
        name=name,
        budget=budget,
        question=file.question,
        bundle=chosen.bundle or file.bundle,
        method=file.method,
        seed=file.seed,
        seeds=file.seeds[: chosen.seeds],
        samples=chosen.samples,
        trials=chosen.trials or 0,
        reference=file.reference,
        objectives=file.objectives,
        fixed={**file.fixed, **chosen.fixed},
        search=file.search,
    )
    _check_space(study, where)
    return study.model_copy(update={"trials": _total(study, chosen, where)})


def _total(study: Study, budget: Budget, where: str) -> int:
    """Trials in all; a grid's own number is the upper bound, and the default."""
    if study.method != "grid":
        if budget.trials is None:
            raise UserError(
                f"{where}: budgets.{study.budget}.trials is missing; only a grid has its own"
            )
        return budget.trials
    for knob, domain in study.search.items():
        if domain.values() is None:
            raise UserError(
                f"{where}: search.{knob}: a grid needs choices, whole numbers or a step"
            )
    size = sum(1 for _ in itertools.islice(study.grid(), 1_000_000))
    return min(size, budget.trials or size)


def _check_space(study: Study, where: str) -> None:
    """Build the settings at every corner of the space, so that none can be refused later."""
    used: set[str] = set()
    for params in study.corners():
        try:
            settings = study.settings(params)
        except ValidationError as error:
            raise UserError(f"{where}: {one_line(error)} [{_spell(params)}]") from None
        used |= settings.model_fields_set
    for knob in study.fixed:
        if knob not in used:
            raise UserError(
                f"{where}: fixed.{knob} = {study.fixed[knob]} applies to no configuration"
            )
    for knob in study.search:
        if knob not in used:
            raise UserError(f"{where}: search.{knob} applies to no configuration")


def _spell(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {json.dumps(v)}" for k, v in params.items())


def read(path: Path, budget: str, trials: int | None = None) -> Study:
    """The study of a file; `trials` takes the place of the budget's."""
    return resolve(_parse_file(path), path.stem, budget, str(path), trials)


def question(path: Path) -> str:
    """What a study asks."""
    return _parse_file(path).question


def _parse_file(path: Path) -> StudyFile:
    """The file, laid over the one that it extends, if it does."""
    tables = _tables(path)
    if "extends" in tables:
        base = tables.pop("extends")
        if not isinstance(base, str):
            raise UserError(f"{path}: extends: must be a file's name (value {base!r})")
        tables = _laid_over(_tables(path.parent / base), tables)
    return _validated(tables, str(path))


def _laid_over(base: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, anything else is replaced, and so is a searched knob as a whole; what is
    searched now is no longer fixed."""
    merged = dict(base)
    for key, value in tables.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        if key == "search" and both:
            merged[key] = {**merged[key], **value}
        else:
            merged[key] = _laid_over(merged[key], value) if both else value
    searched, fixed = tables.get("search"), merged.get("fixed")
    if isinstance(searched, dict) and isinstance(fixed, dict):
        merged["fixed"] = {k: v for k, v in fixed.items() if k not in searched}
    return merged


def _tables(path: Path) -> dict[str, Any]:
    try:
        return _toml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({type(error).__name__})") from None


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where}: not TOML: {error}") from None


def _validated(tables: dict[str, Any], where: str) -> StudyFile:
    try:
        return StudyFile.model_validate(tables)
    except ValidationError as error:
        raise UserError(f"{where}: {one_line(error)}") from None
