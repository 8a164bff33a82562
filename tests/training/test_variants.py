"""Variants of a recipe, by the names that study files use."""

from __future__ import annotations

from typing import Any

import pytest

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset
from ablate.models.recipe import Recipe
from ablate.training.variants import Variant, known_names, variant_of


def test_fields_of_the_recipe_and_its_network_are_changed(tiny_recipe: Recipe) -> None:
    changes: dict[str, Any] = {"train.rate": 0.1, "train.net.widths": "[4, 8]"}
    changes |= {"train.flips": "true", "train.net.options.depth": 3}
    changed = variant_of(tiny_recipe, changes).recipe
    assert changed.rate == 0.1
    assert changed.net.widths == (4, 8)
    assert changed.flips
    assert changed.net.options == {"depth": 3}
    assert changed.net.dropout == tiny_recipe.net.dropout
    assert variant_of(tiny_recipe, {}) == Variant(tiny_recipe)


def test_every_field_can_be_named(tiny_recipe: Recipe) -> None:
    names = known_names()
    assert {"train.steps", "train.focus", "train.net.classes", "train.ema_length"} <= set(names)
    for name in names:
        field = name.removeprefix("train.")
        value: Any = tiny_recipe.model_dump()
        for part in field.split("."):
            value = value[part] if isinstance(value, dict) and part in value else 0.1
        shown = str(list(value)) if isinstance(value, tuple) else value
        variant_of(tiny_recipe, {name: shown})  # an error if it is unknown


def test_options_of_the_training(tiny_recipe: Recipe) -> None:
    variant = variant_of(tiny_recipe, {"train.minutes": 2, "train.ema_length": 0.1})
    assert variant == Variant(tiny_recipe, 2.0, 0.1)


def test_the_average_is_no_part_of_the_identity(tiny_recipe: Recipe, digits: Dataset) -> None:
    plain = Variant(tiny_recipe)
    assert plain._replace(ema_length=0.1).identity(digits) == plain.identity(digits)
    others = [
        plain.with_seed(3),
        plain._replace(minutes=2.0),
        *(variant_of(tiny_recipe, {"train.decay": 2, "train.steps": n}) for n in (15, 16)),
        variant_of(tiny_recipe, {"train.decay": 3}),
    ]
    assert len({each.identity(digits) for each in (plain, *others)}) == 1 + len(others)
    assert plain.with_seed(None) is plain


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("train.speed", 1, "train.speed: no such knob; known: train.steps"),
        ("train.net", "compact", "train.net: no such knob"),
        ("train.net.depth", 1, "train.net.depth: no such knob"),
        ("train.steps", 0, "train.steps: Input should be greater than or equal to 1 (value 0)"),
        ("train.steps", 1.5, "train.steps: Input should be a valid integer"),
        ("train.optimiser", "sgd", "train.optimiser: Input should be 'muon' or 'adamw'"),
        ("train.objective", "mine", "train.objective: "),
        ("train.net.widths", "[]", "train.net.widths: "),
        ("train.minutes", "long", "train.minutes = 'long': must be a number above 0"),
        ("train.ema_length", 0.3, "train.ema_length = 0.3: must be at most 0.28"),
        ("train.seed", 1, "train.seed: give training_seeds"),
    ],
)
def test_what_a_recipe_refuses_is_one_line(
    name: str, value: str | float, message: str, tiny_recipe: Recipe
) -> None:
    with pytest.raises(UserError) as error:
        variant_of(tiny_recipe, {name: value})
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
