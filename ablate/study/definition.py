"""A study of one budget, resolved: what is run, and every configuration it can propose."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ablate.generate.applicability import DECIDING, listens
from ablate.generate.known_knobs import start_knob_names
from ablate.generate.settings import Settings
from ablate.metrics.registry import METRICS
from ablate.results import Objective
from ablate.study.domain import Domain, Model, Scalar
from ablate.study.methods import METHODS
from ablate.study.train_knobs import is_train

ExtractorName = Literal["small", "inception"]
"""small: the dataset's classifier."""

MOST_TRIALS = 1_000_000
MOST_CORNERS = 2_000
"""Corners of a space that are checked before anything runs: that takes less than a second."""


Combination = Literal["cumulative", "add-one", "leave-one-out"]
COMBINATIONS: tuple[Combination, ...] = ("cumulative", "add-one", "leave-one-out")
"""Which steps of a ladder a configuration has: the first few, one, or all but one."""


class Published(Model):
    """Values that others published, shown beside our trials with the same knobs; never ranked."""

    knobs: dict[str, Scalar]
    metrics: dict[str, float]


class Confirm(Model):
    """What is measured again on fresh seeds after the search, so that the answer is not luck: the
    best configurations, and what to compare them with."""

    top: int = Field(3, ge=0)  # how many of the best; no more than a quarter of the trials
    samples: int | None = Field(None, ge=2)  # for each seed; None: as many as in the search
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = ()  # none: as many, from 100 on
    named: dict[str, int] = Field(default_factory=dict)  # what to compare with -> place in `first`


class Step(Model):
    """One change on a ladder, by name. Files write it as one table, `{ name = "…", r = 0.6 }`."""

    name: str = Field(min_length=1)
    knobs: dict[str, Scalar] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _one_table(cls, data: Any) -> Any:
        if isinstance(data, dict) and "knobs" not in data:
            named = {"name": data["name"]} if "name" in data else {}
            return {**named, "knobs": {k: v for k, v in data.items() if k != "name"}}
        return data


def _owner(knob: str) -> tuple[str, ...]:
    """The knob that decides whether an initialisation's own knob applies; none for others."""
    return ("init",) if knob in start_knob_names() else ()


class Study(Model):
    """A study of one budget with every default filled in."""

    name: str
    budget: str
    question: str
    bundle: str
    method: str  # a name of the registry
    seed: int
    seeds: tuple[int, ...]
    samples: int
    trials: int
    reference: Literal["train", "test"]
    extractor: ExtractorName | None = None  # None: not chosen yet, see `extractors`
    also: tuple[Literal["inception"], ...] = ()  # extractors that measure what is confirmed, too
    objectives: tuple[Objective, ...]
    fixed: dict[str, Scalar]
    search: dict[str, Domain]
    rows: tuple[dict[str, Scalar], ...] = ()  # knobs that vary together: one axis of a grid
    first: tuple[dict[str, Scalar], ...] = ()  # configurations to try before any other
    confirm: Confirm = Confirm(top=0)
    rungs: tuple[int, ...] = ()  # fewer samples, after which a trial may be pruned
    constraints: dict[str, float] = Field(default_factory=dict)  # metric -> the most it may be
    minutes: float | None = None  # no trial starts later than this
    evaluations: int | None = None  # no trial starts after so many, counted per image
    published: tuple[Published, ...] = ()
    base: dict[str, Scalar] = Field(default_factory=dict)  # of a ladder, whose rows follow from it
    steps: tuple[Step, ...] = ()
    combinations: tuple[Combination, ...] = COMBINATIONS  # of the steps
    recipe: str = ""  # by which the study trains its networks; empty: it samples the bundle's
    training_seeds: tuple[int, ...] = ()  # none: the recipe's own
    answers: str = ""  # the contrast that the question is about, see `core.asked`

    def identity(self, *surroundings: str) -> str:
        """Hash of all that decides a result; `surroundings` are hashes of what else does.

        It leaves out texts and limits: asking for more trials continues the same study. It leaves
        out the extractor's name, too, because the hash of the extractor is one of `surroundings`,
        and fields that were added later, at their defaults, so that hashes stay as they were.
        """
        out = {"question", "answers", "trials", "minutes", "evaluations", "published", "extractor"}
        later, fields = ("combinations", "recipe", "training_seeds"), type(self).model_fields
        out |= {name for name in later if getattr(self, name) == fields[name].default}
        text = self.model_dump_json(exclude=out)
        return hashlib.sha256("\n".join([text, *surroundings]).encode()).hexdigest()[:12]

    def pruning_objective(self) -> Objective | None:
        """The objective that trials are pruned by, or None if they cannot be.

        Exactly one objective must allow pruning, and the others must be known before any sample
        is drawn.
        """
        found = [o for o in self.objectives if METRICS[o.metric].prunes]
        late = [o for o in self.objectives if not METRICS[o.metric].known_early]
        return found[0] if found == late and len(found) == 1 else None

    def is_steady(self) -> bool:
        """Whether the objectives' means are the same for any number of samples."""
        metrics = [METRICS[objective.metric] for objective in self.objectives]
        return all(metric.steady or metric.known_early for metric in metrics)

    def without(self, knob: str, values: frozenset[Scalar]) -> Study:
        """The study without some choices of a knob, if that leaves any; a grid gets smaller."""
        domain = self.search.get(knob)
        left = tuple(v for v in (domain and domain.choices) or () if v not in values)
        if domain is None or not left or left == domain.choices:
            return self
        search = {**self.search, knob: domain.model_copy(update={"choices": left})}
        study = self.model_copy(update={"search": search})
        if METHODS[self.method].finite:
            study = study.model_copy(update={"trials": min(self.trials, study.size())})
        return study

    def applies(self, knob: str, chosen: Mapping[str, Any]) -> bool:
        """Whether `knob` applies, given the knobs chosen before it."""
        when = self.search[knob].when if knob in self.search else {}
        return listens(knob, chosen) and all(chosen.get(k) in v for k, v in when.items())

    def settings(self, params: Mapping[str, Any]) -> Settings:
        """The whole configuration of a trial, from its searched knobs."""
        chosen = {**self.fixed, **params}
        applied = {k: v for k, v in chosen.items() if self.applies(k, chosen)}
        training = tuple((k, applied.pop(k)) for k in list(applied) if is_train(k))
        return Settings(**applied, **({"training": training} if training else {}))

    def training_seed(self, seed: int) -> int | None:
        """The training seed of the network that `seed` samples; None: the recipe's own.

        Sampling seeds are nested in training seeds: with T of these, seed s has the (s mod T)-th.
        """
        return self.training_seeds[seed % len(self.training_seeds)] if self.training_seeds else None

    def applied(self, knobs: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Those of the knobs that apply beside each other and the fixed ones."""
        chosen = {**self.fixed, **knobs}
        return {k: v for k, v in knobs.items() if self.applies(k, chosen)}

    def values(self, knob: str) -> tuple[Scalar, ...]:
        """Values of `knob`: its choices, the ends of its range, those in rows, or its fixed one."""
        if knob in self.search:
            return self.search[knob].ends()
        if any(knob in row for row in self.rows):
            return tuple(dict.fromkeys(row[knob] for row in self.rows if knob in row))
        return (self.fixed[knob],) if knob in self.fixed else ()

    def domain(self, knob: str) -> Domain:
        """The domain of a knob that is searched or varies in rows."""
        return self.search[knob] if knob in self.search else Domain(choices=self.values(knob))

    def order(self) -> list[str]:
        """The searched knobs, each after those that it depends on."""
        first = [knob for knob in DECIDING if knob in self.search]
        needs: dict[str, list[str]] = {
            knob: [
                k for k in (*first, *_owner(knob), *domain.when) if k in self.search and k != knob
            ]
            for knob, domain in self.search.items()
            if knob not in first
        }
        among: dict[str, list[str]] = {}
        for i, knob in enumerate(first):
            before = [k for k in first[:i] if knob not in self.search[k].when]
            among[knob] = [k for k in self.search[knob].when if k in self.search]
            among[knob] += before if knob in ("integrator", "N") else []
        return list(TopologicalSorter(among | needs).static_order())

    def grid(self) -> Iterator[dict[str, Scalar]]:
        """Every configuration of a finite space, once."""
        for row in self.rows or ({},):
            yield from self._grid(self.order(), dict(row))

    def size(self) -> int:
        """The number of configurations of a grid, including those that come first."""
        return len(self.first) + sum(1 for _ in itertools.islice(self.grid(), MOST_TRIALS))

    def corners(self) -> Iterator[dict[str, Scalar]]:
        """Every combination of choices and ends of ranges: if these are valid, all are.

        If there are more than MOST_CORNERS: the first of them, and for each value of each knob one
        combination that has it.
        """
        ends = {
            knob: Domain(choices=tuple(dict.fromkeys(domain.ends())), when=domain.when)
            for knob, domain in self.search.items()
        }
        grid = self.model_copy(update={"search": ends}).grid()
        yield from itertools.islice(grid, MOST_CORNERS)
        if next(grid, None) is None:
            return
        for row in self.rows:
            some = self.model_copy(update={"search": ends, "rows": (row,)}).grid()
            yield from itertools.islice(some, 1)
        for knob, domain in ends.items():
            for value in domain.choices or ():
                only = domain.model_copy(update={"choices": (value,)})
                some = self.model_copy(update={"search": {**ends, knob: only}}).grid()
                having = (each for each in itertools.islice(some, MOST_CORNERS) if knob in each)
                yield from itertools.islice(having, 1)

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
