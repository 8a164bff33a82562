"""The cost of the networks that a study trains: how many, and how long they take on this device."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from ablate.experiment.prepare import Setup
from ablate.generate.settings import Settings
from ablate.models.recipe import Recipe
from ablate.training.clock import seconds_of_a_step
from ablate.training.variants import Variant

MOST_TIMED = 8
"""Kinds of networks whose steps are timed; further ones count as the mean of these."""

FINISHING = 1.5
"""Seconds that a training takes beside its steps, as measured: held-out errors, samples, files."""


class TrainingPlan(NamedTuple):
    """The cost of a study's trainings."""

    networks: int  # that are not trained yet
    seconds: float
    bytes: int


def plan_trainings(setup: Setup, configurations: Iterable[Settings], trials: int) -> TrainingPlan:
    """The cost of all trainings of a study, without those that are finished.

    configurations: those that are foreseen, of `trials` in all; further ones cost the mean.
    """
    training, study = setup.training, setup.study
    if training is None:
        return TrainingPlan(0, 0.0, 0)
    seeds = {study.training_seed(seed) for seed in study.seeds}
    known = list(itertools.islice(configurations, trials))
    wanted = [training.variant(each).with_seed(seed) for each in known for seed in seeds]
    needed = {training.store.key(v): v for v in wanted if not training.store.is_trained(v)}
    by_steps = [variant.recipe for variant in needed.values() if variant.minutes is None]
    times = _times(setup, by_steps)
    seconds = sum(_seconds(variant, times) for variant in needed.values())
    share = trials / len(known) if known else 1.0
    size = sum(_bytes(setup, variant.recipe) for variant in needed.values())
    return TrainingPlan(round(share * len(needed)), share * seconds, round(share * size))


def _times(setup: Setup, recipes: list[Recipe]) -> dict[str, float]:
    """Seconds of a step by kind of network."""
    kinds = {_kind(recipe): recipe for recipe in recipes}
    assert setup.training is not None
    timed = {
        kind: seconds_of_a_step(recipe, setup.training.dataset, setup.device)
        for kind, recipe in itertools.islice(kinds.items(), MOST_TIMED)
    }
    mean = sum(timed.values()) / len(timed) if timed else 0.0
    return dict.fromkeys(kinds, mean) | timed


def _kind(recipe: Recipe) -> str:
    """All that decides how long a step takes."""
    return (
        f"{recipe.net.model_dump_json()} {recipe.batch} {recipe.objective} {recipe.optimiser}"
        f" {recipe.precision}"
    )


def _seconds(variant: Variant, times: dict[str, float]) -> float:
    if variant.minutes is not None:
        return 60 * variant.minutes + FINISHING
    return variant.recipe.steps * times[_kind(variant.recipe)] + FINISHING


def _bytes(setup: Setup, recipe: Recipe) -> int:
    """Bytes of a network's files: about those of the bundle, and snapshots in single precision."""
    weights = sum(p.numel() for p in setup.bundle.model.net.parameters())
    kept = 2 * recipe.snapshots + 5 if recipe.snapshots else 0  # averages, optimiser, weights
    return weights * (2 + 4 * kept)
