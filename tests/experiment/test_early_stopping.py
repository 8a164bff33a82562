"""Giving up early: the worse is found out on few samples, the equal is not lost."""

from __future__ import annotations

import pytest
import torch

from ablate.experiment.early_stopping import (
    SURE,
    Rival,
    choose_rival,
    difference,
    verdict,
)
from ablate.generate.settings import Settings
from ablate.metrics.estimate import paired_difference, pooled
from ablate.metrics.kid import features_to_kid
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import Reference
from ablate.results import Objective
from ablate.study.definition import Study
from ablate.study.file import objective
from tests.support.beds import normal

WIDTH = 16
PROTOCOL = Protocol("tiny", "0", "none", True, "tiny/train", "0", 400, 64)


def reference() -> Reference:
    return Reference(normal((400, WIDTH), 1), PROTOCOL)


def study(*objectives: Objective) -> Study:
    return Study(
        name="s",
        budget="quick",
        question="?",
        bundle="b",
        method="random",
        seed=0,
        seeds=(0, 1),
        samples=256,
        trials=4,
        reference="train",
        objectives=objectives or (objective("kid"),),
        fixed={},
        search={},
        rungs=(64,),
    )


def settings(levels: int = 20) -> Settings:
    return Settings(sampler="adls", init="gaussian", sigma=0.8, levels=levels)


def rival(number: int = 0, levels: int = 20, *values: float) -> Rival:
    return Rival(number, settings(levels), values or (0.1,))


def samples(seed: int, shift: float, jitter: float, count: int = 64) -> torch.Tensor:
    """Features that share most of their noise with others of the same seed."""
    own = normal((count, WIDTH), 1000 + seed + int(1e6 * shift) + int(1e6 * jitter))
    return (normal((count, WIDTH), seed) + shift + jitter * own).half()


def test_the_worse_is_pruned_and_the_better_is_not() -> None:
    mine, theirs = {0: samples(10, 0.6, 0.1)}, {0: samples(10, 0.0, 0.1)}
    reason = verdict(study(), rival(3), mine, theirs, reference())
    assert reason is not None
    assert "after 64 samples kid is" in reason
    assert "worse than that of trial 3" in reason
    assert verdict(study(), rival(3), theirs, mine, reference()) is None


def test_maximising_turns_it_round() -> None:
    wanted = study(objective("precision"))
    mine, theirs = {0: samples(10, 3.0, 0.1)}, {0: samples(10, 0.0, 0.1)}
    assert verdict(wanted, rival(), mine, theirs, reference()) is not None
    assert verdict(wanted, rival(), theirs, mine, reference()) is None


def test_one_as_good_is_seldom_lost() -> None:
    """At 2.5 standard errors one side of a normal law is 0.6 %; of 200 the number lost then has
    mean 1.2, and is above 6 once in 3,000 times."""
    real, spec = reference(), study()
    lost = sum(
        verdict(spec, rival(), {0: samples(2 * i, 0.2, 0.3)}, {0: samples(2 * i, 0.2, 0.31)}, real)
        is not None
        for i in range(200)
    )
    assert lost <= 6


def test_pairs_tell_more_than_two_means_do() -> None:
    """A difference that neither interval alone would show."""
    mine, theirs, real = samples(10, 0.25, 0.05), samples(10, 0.2, 0.05), reference()
    found = difference({0: mine}, {0: theirs}, "kid", real)
    apart = [features_to_kid(side.float(), real.features).estimate for side in (mine, theirs)]
    assert found.error < min(each.error for each in apart) / 2
    assert abs(found.value - (apart[0].value - apart[1].value)) < 1e-9
    assert found.value > SURE * found.error


def test_seeds_are_pooled() -> None:
    """Over two seeds the samples' part of the error is that of twice as many."""
    real = reference()
    sides = [{seed: samples(seed, shift, 0.3) for seed in (10, 11)} for shift in (0.3, 0.2)]
    both = difference(sides[0], sides[1], "kid", real)
    single = [difference({s: sides[0][s]}, {s: sides[1][s]}, "kid", real) for s in (10, 11)]
    assert abs(both.value - sum(each.value for each in single) / 2) < 1e-12
    assert both.error < 0.85 * max(each.error for each in single)
    parts = [features_to_kid(sides[0][s].float(), real.features) for s in (10, 11)]
    assert pooled(parts).value == sum(part.value for part in parts) / 2
    same = paired_difference(pooled(parts), pooled(parts))
    assert same == (0.0, 0.0)


def test_only_samples_that_both_have_count() -> None:
    long, short = samples(10, 0.2, 0.1, 256), samples(10, 0.2, 0.1, 64)
    assert difference({0: short}, {0: long[:64]}, "kid", reference()) == difference(
        {0: short}, {0: long}, "kid", reference()
    )


def test_the_rival_is_the_best_that_is_no_dearer() -> None:
    front = study(objective("kid"), objective("nfe"))
    field = [rival(0, 10, 0.3, 9), rival(1, 20, 0.2, 19), rival(2, 40, 0.1, 39)]
    assert choose_rival(front, settings(20), field) == field[1]
    assert choose_rival(front, settings(9), field) is None
    assert choose_rival(study(), settings(9), field) == field[2]
    assert choose_rival(study(), settings(9), []) is None


@pytest.mark.parametrize("metric", ["seconds", "clamp_rate"])
def test_what_cannot_be_known_early_is_not_judged(metric: str) -> None:
    assert study(objective("kid"), objective(metric)).pruning_objective() is None
    assert study(objective(metric)).pruning_objective() is None
    assert study().pruning_objective() == objective("kid")
