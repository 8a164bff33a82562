"""From a study file and a budget to the study that is run, with every configuration checked."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ablate.core.bounded_toml import parse_toml
from ablate.core.errors import UserError
from ablate.core.unknown_names import nearest
from ablate.core.validation import one_line
from ablate.generate.coordinates import in_coordinates, paper_knob
from ablate.generate.known_knobs import known_knobs
from ablate.metrics.registry import METRICS
from ablate.study import ladder
from ablate.study.definition import Confirm, Study
from ablate.study.domain import Scalar
from ablate.study.file import Budget, StudyFile, validated
from ablate.study.methods import METHODS
from ablate.study.train_knobs import check_balance, is_train


def parse(text: str, name: str, budget: str, where: str = "") -> Study:
    """A study file's text -> the study of one budget."""
    where = where or f"{name}.toml"
    return resolve(validated(parse_toml(text, where), where), name, budget, where)


def resolve(
    file: StudyFile, name: str, budget: str, where: str, trials: int | None = None
) -> Study:
    """The study of one budget; every configuration it allows is valid."""
    chosen = _chosen(file, budget, where, trials)
    _check_overrides(file, chosen, f"{where}: budgets.{budget}")
    study = _merged(file, chosen, name, budget, where)
    if METHODS[study.method].ladder:
        study = study.model_copy(update={"rows": ladder.rows(study, where)})
    check_balance(study.seeds, study.training_seeds, f"{where}: seeds")
    check_balance(study.confirm.seeds, study.training_seeds, f"{where}: confirm.seeds")
    _check_rungs(study, f"{where}: budgets.{budget}")
    _check_confirm(study, where)
    study = study.model_copy(update={"first": tuple(_first(study, file.first, where))})
    _check_space(study, where)
    return study.model_copy(update={"trials": _total(study, chosen, where)})


def _chosen(file: StudyFile, budget: str, where: str, trials: int | None) -> Budget:
    """The budget of that name, with another number of trials if one is given."""
    if budget not in file.budgets:
        have = ", ".join(file.budgets)
        hint = "".join(f"; did you mean {each!r}?" for each in nearest(budget, file.budgets)[:1])
        raise UserError(f"{where}: budgets.{budget} is not there; the study has {have}{hint}")
    chosen = file.budgets[budget]
    return chosen if trials is None else chosen.model_copy(update={"trials": trials})


def _merged(file: StudyFile, chosen: Budget, name: str, budget: str, where: str) -> Study:
    """What the file says, with the changes that the budget makes."""
    return Study(
        name=name,
        budget=budget,
        question=file.question,
        answers=file.answers,
        bundle=chosen.bundle or file.bundle,
        method=file.method,
        seed=file.seed,
        seeds=file.seeds[: chosen.seeds],
        samples=chosen.samples,
        trials=chosen.trials or 0,
        reference=file.reference,
        extractor=file.extractor,
        also=file.also,
        objectives=file.objectives,
        fixed={**file.fixed, **chosen.fixed},
        search={**file.search, **chosen.search},
        rows=tuple({k: v for k, v in row.items() if k not in file.search} for row in file.rows),
        rungs=_rungs(chosen, where),
        confirm=_confirm(file, chosen, where),
        constraints=file.constraints,
        minutes=chosen.minutes,
        evaluations=chosen.evaluations,
        published=file.published,
        base=file.base,
        steps=file.steps,
        combinations=file.combinations,
        recipe=file.recipe,
        training_seeds=file.training_seeds,
    )


def _check_overrides(file: StudyFile, budget: Budget, place: str) -> None:
    """Raise an error if a budget overrides knobs that the study does not fix or search."""
    for knob in budget.fixed:
        if (knob not in known_knobs() and not is_train(knob)) or knob in file.search:
            raise UserError(f"{place}.fixed.{knob}: not a fixed knob of this study")
    for knob in budget.search:
        if knob not in file.search:
            raise UserError(f"{place}.search.{knob}: not searched by this study")


def _check_rungs(study: Study, place: str) -> None:
    """Raise an error if trials cannot be pruned at the rungs that the study has."""
    if study.rungs and study.pruning_objective() is None:
        pruning = ", ".join(name for name, metric in METRICS.items() if metric.prunes)
        raise UserError(
            f"{place}.rungs: trials are pruned by one of {pruning} (and nfe);"
            f" the objectives are {', '.join(o.metric for o in study.objectives)}"
        )
    if study.rungs and not METHODS[study.method].reads_pruned:
        raise UserError(
            f"{place}.rungs: method {study.method!r} learns nothing from pruned"
            " trials and would search at random; leave rungs out, or use tpe or law"
        )
    if study.rungs and len(study.training_seeds) > 1:
        raise UserError(
            f"{place}.rungs: trials are pruned by their first network alone, whatever other"
            " training_seeds give; leave rungs out"
        )


def _rungs(budget: Budget, where: str) -> tuple[int, ...]:
    ascending = [*budget.rungs, budget.samples]
    if any(a >= b for a, b in itertools.pairwise(ascending)):
        raise UserError(
            f"{where}: rungs {list(budget.rungs)} must rise towards samples = {budget.samples}"
        )
    return budget.rungs


FRESH = 100
"""The first seed of a confirmation, unless the study says otherwise."""


def _confirm(file: StudyFile, budget: Budget, where: str) -> Confirm:
    """The study's confirmation, with what its budget changes and every default filled in."""
    changed = {} if budget.confirm is None else budget.confirm.model_dump(exclude_unset=True)
    confirm = file.confirm.model_copy(update=changed)
    used = file.seeds[: budget.seeds]
    fresh = confirm.seeds or tuple(range(FRESH, FRESH + len(used)))
    if set(fresh) & set(used) or len(set(fresh)) < len(fresh):
        raise UserError(f"{where}: confirm.seeds {list(fresh)} must be new and differ")
    for name, place in confirm.named.items():
        if not 0 <= place < len(file.first):
            raise UserError(
                f"{where}: confirm.named: {name!r} is place {place} of `first`, which has"
                f" {len(file.first)}"
            )
    samples = confirm.samples or budget.samples
    return confirm.model_copy(update={"seeds": fresh, "samples": samples})


def _check_confirm(study: Study, where: str) -> None:
    """FID of more samples is lower, whatever is confirmed: it needs as many as in the search."""
    metric = study.objectives[0].metric
    if study.confirm.samples not in (None, study.samples) and not METRICS[metric].steady:
        raise UserError(
            f"{where}: confirm.samples = {study.confirm.samples}: {metric} depends on the number of"
            f" samples, which is {study.samples} in the search; leave it out"
        )


def _first(
    study: Study, rows: Sequence[Mapping[str, Scalar]], where: str
) -> Iterator[dict[str, Scalar]]:
    """The searched knobs of each row; its other knobs must have the values that the study fixes.

    Where the study searches a coordinate such as rho, a row may be written with the paper's knob.
    """
    for index, written in enumerate(rows):
        place = f"{where}: first.{index}"
        try:
            row = in_coordinates(written, study.fixed, study.search)
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None
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
    """The total number of trials; for a grid its size, or fewer if the budget says so."""
    if not METHODS[study.method].finite:
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
    """Build the settings at every corner of the space, so that errors show before anything runs."""
    used: set[str] = set()
    for params in (*study.first, *study.corners()):
        try:
            settings = study.settings(params)
        except ValidationError as error:
            raise UserError(f"{where}: {one_line(error)} [{_spell(params)}]") from None
        used |= settings.model_fields_set | dict(settings.training).keys()
    for knob in study.fixed:
        if paper_knob(knob) not in used:
            raise UserError(
                f"{where}: fixed.{knob} = {study.fixed[knob]} applies to no configuration"
            )
    for knob in (*study.search, *(knob for row in study.rows for knob in row)):
        if paper_knob(knob) not in used:
            place = "search" if knob in study.search else "rows"
            raise UserError(f"{where}: {place}.{knob} applies to no configuration")


def _spell(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {json.dumps(v)}" for k, v in params.items())
