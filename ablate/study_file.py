"""A study file: text in, `Study` out, every mistake one line with file, key, rule and value."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ablate.errors import UserError
from ablate.families import FACTS, Member, members
from ablate.home import Home
from ablate.pruning import JUDGED, measured_objective
from ablate.settings import KNOBS
from ablate.space import Domain, Model, Scalar, short_form
from ablate.spec import BOUNDED, Mark, Method, Objective, Study, one_line

BUDGETS = ("smoke", "quick", "full")
WHOLE = {"L", "n", "levels"}
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Bound = Annotated[float, Field(allow_inf_nan=False)]


class Budget(Model):
    """How much of a study is run; `fixed` and `bundle` override the study's own."""

    samples: int = Field(ge=2)
    rungs: tuple[Annotated[int, Field(ge=2)], ...] = ()  # fewer samples, to give up after
    trials: int | None = Field(None, ge=1)  # None: the whole grid
    minutes: float | None = Field(None, gt=0, allow_inf_nan=False)
    evaluations: int | None = Field(None, ge=1)
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
    search: dict[str, Annotated[Domain, BeforeValidator(short_form)]] = Field(default_factory=dict)
    rows: tuple[dict[str, Scalar], ...] = ()
    first: tuple[dict[str, Scalar], ...] = ()
    constraints: dict[Literal[BOUNDED], Bound] = Field(default_factory=dict)  # type: ignore[valid-type]
    marks: tuple[Mark, ...] = ()
    budgets: dict[Literal[BUDGETS], Budget]  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _consistent(self) -> StudyFile:
        places: list[tuple[str, Mapping[str, Any]]] = [("fixed", self.fixed)]
        places += [("search", self.search), *((f"rows.{i}", r) for i, r in enumerate(self.rows))]
        places += ((f"first.{i}", row) for i, row in enumerate(self.first))
        places += ((f"marks.{i}.knobs", mark.knobs) for i, mark in enumerate(self.marks))
        for place, knobs in places:
            for knob in knobs:
                if knob not in KNOBS:
                    raise ValueError(f"{place}.{knob}: no such knob; known: {', '.join(KNOBS)}")
        for knob in self.search:
            if knob in self.fixed:
                raise ValueError(f"{knob} is both fixed and searched")
        if not self.search and not self.rows:
            raise ValueError("search and rows are empty: there is nothing to ablate")
        if self.rows and self.method != "grid":
            raise ValueError(f"rows are an axis of a grid; method {self.method!r} has none")
        if not self.search and self.method != "grid":
            raise ValueError(f"search is empty: method {self.method!r} has nothing to search")
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
        rows=tuple({k: v for k, v in row.items() if k not in file.search} for row in file.rows),
        rungs=_rungs(chosen, where),
        constraints=file.constraints,
        minutes=chosen.minutes,
        evaluations=chosen.evaluations,
        marks=file.marks,
    )
    if study.rungs and measured_objective(study) is None:
        raise UserError(
            f"{where}: budgets.{budget}.rungs: trials are given up by one of"
            f" {', '.join(JUDGED)} (and nfe); the objectives are"
            f" {', '.join(o.metric for o in study.objectives)}"
        )
    study = study.model_copy(update={"first": tuple(_first(study, file.first, where))})
    _check_space(study, where)
    return study.model_copy(update={"trials": _total(study, chosen, where)})


def _rungs(budget: Budget, where: str) -> tuple[int, ...]:
    ascending = [*budget.rungs, budget.samples]
    if any(a >= b for a, b in itertools.pairwise(ascending)):
        raise UserError(
            f"{where}: rungs {list(budget.rungs)} must rise towards samples = {budget.samples}"
        )
    return budget.rungs


def _first(
    study: Study, rows: Sequence[Mapping[str, Scalar]], where: str
) -> Iterator[dict[str, Scalar]]:
    """Each row's searched knobs; the rest of it must be what the study has fixed."""
    for index, row in enumerate(rows):
        place = f"{where}: first.{index}"
        for knob, value in row.items():
            if knob in study.search:
                if not study.search[knob].contains(value):
                    raise UserError(f"{place}.{knob} = {value!r} is not within search.{knob}")
            elif study.fixed.get(knob) != value:
                raise UserError(f"{place}.{knob} = {value!r} is neither searched nor fixed so")
        chosen: dict[str, Scalar] = {}
        for knob in study.order():
            if not study.applies(knob, {**study.fixed, **chosen}):
                continue
            if knob not in row:
                raise UserError(f"{place}: {knob} is missing")
            chosen[knob] = row[knob]
        yield chosen


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
    size = study.size()
    return min(size, budget.trials or size)


def _check_space(study: Study, where: str) -> None:
    """Build the settings at every corner of the space, so that none can be refused later."""
    used: set[str] = set()
    for params in (*study.first, *study.corners()):
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
    for knob in (*study.search, *(knob for row in study.rows for knob in row)):
        if knob not in used:
            place = "search" if knob in study.search else "rows"
            raise UserError(f"{where}: {place}.{knob} applies to no configuration")


def _spell(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {json.dumps(v)}" for k, v in params.items())


class Source(NamedTuple):
    """A study as it is written, from one file or from a family's."""

    name: str
    where: str  # it is written, for messages
    tables: dict[str, Any]
    family: str = ""

    @property
    def question(self) -> str:
        return _validated(self.tables, self.where).question


def find(home: Home, name: str, seen: tuple[Path, ...] = ()) -> Source:
    """A study by its name, or by its path when it ends in .toml.

    `seen` are files that extend it: one of the same name means the study whose place it takes.
    """
    if name.endswith(".toml"):
        return _from_file(home, home.file(name), seen)
    files = {key: path for key, path in home.toml_files().items() if path not in seen}
    if name in files:
        return _from_file(home, files[name], seen)
    relatives = _relatives(home)
    if name not in relatives:
        known = ", ".join([*files, *relatives]) or "none"
        raise UserError(f"study {name!r} is unknown; known: {known}")
    member = relatives[name]
    tables = member.fill(_tables(member.template))
    return Source(name, f"{name} ({member.template})", tables, member.family)


def names(home: Home) -> dict[str, str]:
    """Every study with its family; one's own, which have none, first."""
    relatives = {name: member.family for name, member in _relatives(home).items()}
    return dict.fromkeys(home.toml_files(), "") | {
        name: family for name, family in relatives.items() if name not in home.toml_files()
    }


def _relatives(home: Home) -> dict[str, Member]:
    files = home.toml_files("families")
    if FACTS not in files:
        return {}
    facts = files.pop(FACTS)
    return members(files, _tables(facts), str(facts))


def read(source: Source, budget: str, trials: int | None = None) -> Study:
    """The study of one budget; `trials` takes the place of the budget's."""
    file = _validated(source.tables, source.where)
    return resolve(file, source.name, budget, source.where, trials)


def _from_file(home: Home, path: Path, seen: tuple[Path, ...]) -> Source:
    """The file, laid over the study or file that it extends, if it does."""
    tables = _tables(path)
    if "extends" in tables:
        base = tables.pop("extends")
        if not isinstance(base, str):
            raise UserError(f"{path}: extends: must be a study or a file's name (value {base!r})")
        if path in seen:
            raise UserError(f"{path}: extends itself")
        if base.endswith(".toml"):
            below = _from_file(home, path.parent / base, (*seen, path))
        else:
            below = find(home, base, (*seen, path))
        tables = _laid_over(below.tables, tables)
    return Source(path.stem, str(path), tables)


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
