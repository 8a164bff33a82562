"""A study file as a validated, frozen model: text in, `Study` out, every mistake one line."""

from __future__ import annotations

import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ablate.errors import UserError
from ablate.settings import KNOBS, Settings, listens
from ablate.space import Domain, Model, Scalar, short_form

METRICS = ("kid", "fid", "nfe", "seconds", "clamp_rate", "flip_rate")
BUDGETS = ("smoke", "quick", "full")
MOST_CORNERS = 20_000
"""Of a space, checked before anything runs; some 100 ms."""


class Objective(Model):
    metric: Literal[METRICS]  # type: ignore[valid-type]
    direction: Literal["minimize", "maximize"] = "minimize"


class Budget(Model):
    """How much of a study is run; `fixed` and `bundle` override the study's own."""

    samples: int = Field(ge=2)
    trials: int | None = Field(None, ge=1)  # None: the whole grid
    seeds: int | None = Field(None, ge=1)  # the first so many of the study's
    fixed: dict[str, Scalar] = Field(default_factory=dict)
    bundle: str | None = None


class Study(Model):
    """A study of one budget, resolved: what is run, and nothing that is not."""

    name: str
    budget: str
    question: str
    bundle: str
    method: Literal["grid", "random", "tpe", "qmc", "cmaes", "gp"]
    seed: int
    seeds: tuple[int, ...]
    samples: int
    trials: int
    reference: Literal["train", "heldout"]
    objectives: tuple[Objective, ...]
    fixed: dict[str, Scalar]
    search: dict[str, Domain]

    def identity(self, *surroundings: str) -> str:
        """Hash of all that decides a result, the bundle's hash among `surroundings`.

        Not the question, and not the number of trials: asking for more continues the study.
        """
        text = self.model_dump_json(exclude={"question", "trials"})
        return hashlib.sha256("\n".join([text, *surroundings]).encode()).hexdigest()[:12]

    def applies(self, knob: str, chosen: Mapping[str, Any]) -> bool:
        """Whether `knob` is to be set, given those set before it."""
        when = self.search[knob].when if knob in self.search else {}
        return listens(knob, chosen) and all(chosen.get(k) in v for k, v in when.items())

    def settings(self, params: Mapping[str, Any]) -> Settings:
        """The whole configuration of a trial, from its searched knobs."""
        chosen = {**self.fixed, **params}
        return Settings(**{k: v for k, v in chosen.items() if self.applies(k, chosen)})

    def values(self, knob: str) -> tuple[Scalar, ...]:
        """What `knob` may be: its choices, the ends of its range, or its fixed value."""
        if knob in self.search:
            return self.search[knob].ends()
        return (self.fixed[knob],) if knob in self.fixed else ()

    def order(self) -> list[str]:
        """The searched knobs, those that others depend on first."""
        parents = {"sampler", "schedule", "grid"} | {
            k for d in self.search.values() for k in d.when
        }
        return sorted(self.search, key=lambda k: (k not in parents, bool(self.search[k].when)))

    def grid(self) -> Iterator[dict[str, Scalar]]:
        """Every configuration of a finite space, each once."""
        yield from self._grid(self.order(), {})

    def corners(self) -> Iterator[dict[str, Scalar]]:
        """Every combination of choices and ends of ranges: if these are valid, all is."""
        ends = {
            knob: Domain(choices=tuple(dict.fromkeys(domain.ends())), when=domain.when)
            for knob, domain in self.search.items()
        }
        yield from itertools.islice(self.model_copy(update={"search": ends}).grid(), MOST_CORNERS)

    def _grid(self, rest: list[str], chosen: dict[str, Scalar]) -> Iterator[dict[str, Scalar]]:
        if not rest:
            yield chosen
            return
        knob, *others = rest
        values = (
            self.search[knob].values() if self.applies(knob, {**self.fixed, **chosen}) else None
        )
        for value in values or ():
            yield from self._grid(others, {**chosen, knob: value})
        if values is None:
            yield from self._grid(others, chosen)


class StudyFile(Model):
    """A study as its file has it."""

    question: str = Field(min_length=1)
    bundle: str
    method: Literal["grid", "random", "tpe", "qmc", "cmaes", "gp"] = "tpe"
    seed: int = Field(0, ge=0)
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = (0, 1, 2)
    reference: Literal["train", "heldout"] = "train"
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
        for knob, domain in self.search.items():
            for parent in domain.when:
                if parent not in {*self.search, *self.fixed} or parent == knob:
                    raise ValueError(f"search.{knob}.when.{parent}: not a knob of this study")
        return self


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


def one_line(error: ValidationError) -> str:
    """The first thing wrong: key, rule and value."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"] if not _is_internal(part))
    rule = first["msg"].removeprefix("Value error, ")
    value = first.get("input")
    shown = (
        ""
        if isinstance(value, dict | BaseModel) or first["type"] == "missing"
        else f" (value {value!r})"
    )
    return f"{key}: {rule}{shown}" if key else f"{rule}{shown}"


def _is_internal(part: object) -> bool:
    """Names that pydantic puts into locations for its own validators."""
    return isinstance(part, str) and (
        "function-" in part or part in {"[key]", "str", "int", "float"}
    )


def read(path: Path, budget: str, trials: int | None = None) -> Study:
    """The study of a file; `trials` takes the place of the budget's."""
    return resolve(_parse_file(path), path.stem, budget, str(path), trials)


def question(path: Path) -> str:
    """What a study asks."""
    return _parse_file(path).question


def _parse_file(path: Path) -> StudyFile:
    """The file, laid over the one that it extends, if it does."""
    tables = _tables(path)
    if isinstance(base := tables.pop("extends", None), str):
        tables = _laid_over(_tables(path.parent / base), tables)
    return _validated(tables, str(path))


def _laid_over(base: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, anything else is replaced; a searched knob is replaced whole."""
    merged = dict(base)
    for key, value in tables.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict) and "low" not in value
        merged[key] = _laid_over(merged[key], value) if both else value
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
