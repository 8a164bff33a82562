"""Ablation ladders: the configurations between a base and the base with every step taken.

A ladder has three kinds of configurations. Cumulative: the base after its first k steps. Add-one:
the base with one step. Leave-one-out: all steps but one. Some coincide, such as the first step
alone and the base after one step, and each distinct configuration is run once. A study may leave
kinds out (`combinations`): steps that are alternatives to each other can only be added one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from ablate.core.errors import UserError
from ablate.core.validation import one_line
from ablate.study.definition import COMBINATIONS, Combination, Step, Study
from ablate.study.domain import Scalar

Taken = tuple[int, ...]
"""The steps that a configuration has, by index in rising order."""


class Ladder(NamedTuple):
    """The configurations of a ladder by what they are, each as the steps that it has."""

    cumulative: list[Taken]  # after 0, 1, 2, … steps
    add_one: list[Taken]  # each step alone
    leave_one_out: list[Taken]  # all steps but each
    combinations: tuple[Combination, ...] = COMBINATIONS  # the kinds that are run

    def distinct(self) -> list[Taken]:
        """Every configuration that is run, once: the base, and those that effects are against."""
        base, top = self.cumulative[0], self.cumulative[-1]
        kinds: dict[Combination, list[Taken]] = {
            "cumulative": self.cumulative,
            "add-one": self.add_one,
            "leave-one-out": [top, *self.leave_one_out],
        }
        wanted = [
            taken for kind in COMBINATIONS if kind in self.combinations for taken in kinds[kind]
        ]
        return list(dict.fromkeys([base, *wanted]))

    def effect_of(self, step: int) -> tuple[Taken, Taken]:
        """(a configuration with the step, one without it), of the first kind that is run."""
        if "cumulative" in self.combinations:
            return self.cumulative[step + 1], self.cumulative[step]
        if "add-one" in self.combinations:
            return self.add_one[step], self.cumulative[0]
        return self.cumulative[-1], self.leave_one_out[step]


def ladder(count: int, combinations: tuple[Combination, ...] = COMBINATIONS) -> Ladder:
    """The configurations of a ladder of so many steps."""
    every = range(count)
    return Ladder(
        [tuple(range(taken)) for taken in range(count + 1)],
        [(step,) for step in every],
        [tuple(other for other in every if other != step) for step in every],
        combinations,
    )


def name_of(taken: Taken, steps: Sequence[Step]) -> str:
    """What a configuration is, in words."""
    if not taken:
        return "the base"
    if taken == tuple(range(len(taken))):
        return f"the base and the steps up to {steps[taken[-1]].name!r}"
    if len(taken) == 1:
        return f"the base and step {steps[taken[0]].name!r} alone"
    missing = (step.name for index, step in enumerate(steps) if index not in taken)
    return f"all steps but {', '.join(map(repr, missing))}"


def knobs_of(base: Mapping[str, Scalar], steps: Sequence[Step], taken: Taken) -> dict[str, Scalar]:
    """The base's knobs, changed by the steps that are taken, one after another."""
    knobs = dict(base)
    for index in taken:
        knobs |= steps[index].knobs
    return knobs


def row_of(study: Study, taken: Taken) -> dict[str, Scalar]:
    """The knobs of a configuration of a ladder, without those that do not apply to it."""
    return study.applied(knobs_of(study.base, study.steps, taken))


def check(base: Mapping[str, Scalar], steps: Sequence[Step], fixed: Mapping[str, Scalar]) -> None:
    """Raise a ValueError if a file's base, steps and fixed knobs do not make a ladder."""
    if not base:
        raise ValueError("base is empty: the ladder has nothing to stand on")
    if not steps:
        raise ValueError("steps is empty: there is nothing to ablate")
    names = [step.name for step in steps]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"steps.{index}.name: {name!r} is the name of another step")
    for knob in base:
        if knob in fixed:
            raise ValueError(f"{knob} is both fixed and in base")


def rows(study: Study, where: str) -> tuple[dict[str, Scalar], ...]:
    """Every distinct configuration of a ladder, once: the cumulative ones first.

    Configurations with different steps may be the same, where a later step leaves an earlier one
    without a meaning. A step that changes nothing where it is taken first is an error.
    """
    structure = ladder(len(study.steps), study.combinations)
    settled = {taken: _settled(study, taken, where) for taken in structure.distinct()}
    _check_knobs(study, structure, where)
    for index, step in enumerate(study.steps):
        after, before = structure.effect_of(index)
        if settled[before] == settled[after]:
            name = name_of(before, study.steps)
            raise UserError(f"{where}: step {step.name!r} changes nothing after {name}")
    firsts: list[Taken] = []
    for taken in structure.distinct():
        if all(settled[taken] != settled[other] for other in firsts):
            firsts.append(taken)
    return tuple(row_of(study, taken) for taken in firsts)


def _settled(study: Study, taken: Taken, where: str) -> dict[str, Scalar]:
    """All knobs of a configuration with their values; an error if it is not valid."""
    try:
        return study.settings(row_of(study, taken)).knobs()
    except ValidationError as error:
        name = name_of(taken, study.steps)
        raise UserError(f"{where}: {name}: {one_line(error)}") from None


def _check_knobs(study: Study, structure: Ladder, where: str) -> None:
    """Raise an error if a knob of the base or of a step applies to no configuration that has it."""
    distinct = structure.distinct()
    parts = [("base", study.base, distinct)]
    for index, step in enumerate(study.steps):
        having = [taken for taken in distinct if index in taken]
        parts.append((f"step {step.name!r}", step.knobs, having))
    for place, knobs, having in parts:
        for knob, value in knobs.items():
            if all(row_of(study, taken).get(knob) != value for taken in having):
                raise UserError(f"{where}: {place}: {knob} = {value} applies to no configuration")
