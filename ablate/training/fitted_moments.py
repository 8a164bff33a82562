"""The moments of a recipe's dataset, fitted once a process: CIFAR-10's take most of a minute."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.moments import Moments, fit_moments
from ablate.models.recipe import Recipe


def moments_of(dataset: Dataset, recipe: Recipe) -> Moments:
    """The moments of the training images, of the ranks that the recipe asks for."""
    return _fit(_Fit(dataset.hash(), recipe.rank, recipe.class_rank, dataset))


@dataclass(frozen=True)
class _Fit:
    """All that a fit depends on; the images are compared by their hash."""

    hash: str
    rank: int
    class_rank: int
    dataset: Dataset = field(compare=False)


@lru_cache(maxsize=4)
def _fit(what: _Fit) -> Moments:
    pixels, labels = what.dataset.train
    return fit_moments(to_unit_interval_plus_one(pixels), labels, what.rank, what.class_rank)
