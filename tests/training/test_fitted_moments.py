"""The moments of a dataset are fitted once for each pair of ranks."""

from __future__ import annotations

import torch

from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.moments import fit_moments
from ablate.models.recipe import Recipe
from ablate.training.fitted_moments import moments_of


def test_moments_are_those_of_the_training_images(digits: Dataset, tiny_recipe: Recipe) -> None:
    x = to_unit_interval_plus_one(digits.train.pixels)
    plain = fit_moments(x, digits.train.labels, tiny_recipe.rank, tiny_recipe.class_rank)
    found = moments_of(digits, tiny_recipe)
    pairs = zip((found.everything, *found.classes), (plain.everything, *plain.classes), strict=True)
    for a, b in pairs:
        assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def test_they_are_fitted_again_only_for_other_ranks_or_images(
    digits: Dataset, tiny_recipe: Recipe
) -> None:
    first = moments_of(digits, tiny_recipe)
    slower = tiny_recipe.model_copy(update={"rate": tiny_recipe.rate / 2})
    assert moments_of(digits._replace(note="the same images"), slower) is first
    narrower = tiny_recipe.model_copy(update={"rank": 3})
    assert moments_of(digits, narrower).everything.variances.numel() == 3
    fewer = digits._replace(train=digits.train._replace(pixels=255 - digits.train.pixels))
    assert not torch.equal(moments_of(fewer, tiny_recipe).class_averages, first.class_averages)
