"""Variants of a training recipe: the recipe with some of its fields changed by name.

A name is a field of the recipe (`train.rate`), of its network (`train.net.widths`), or an option of
the training: `train.minutes` in place of steps, `train.ema_length` of the average to sample with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import ValidationError

from ablate.core.errors import UserError
from ablate.core.validation import one_line
from ablate.data.datasets import Dataset
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.training.ema import LONGEST
from ablate.training.options import Options, training_identity

TRAIN, NET, OPTIONS = "train.", "net.", "net.options."
SNAPSHOTS = 8
"""Snapshots of a training whose average is chosen afterwards, if the recipe has none: averages over
5 % to 15 % of the run are then within 4 % of the exact profile, over 3 % or 20 % within 10 %."""

FIXED = {
    "dataset": "it is the bundle's",
    "seed": "give training_seeds = [0, 1, 2] in place of it",
}
"""Fields that a study does not change, and why."""


class Variant(NamedTuple):
    """A training, and which average of its weights to take."""

    recipe: Recipe
    minutes: float | None = None  # of training, in place of the recipe's steps
    ema_length: float | None = None  # sigma_rel; None: by the recipe's gamma

    def with_seed(self, seed: int | None) -> Variant:
        """The same with another training seed; None: the recipe's own."""
        if seed is None:
            return self
        return self._replace(recipe=self.recipe.model_copy(update={"seed": seed}))

    def identity(self, dataset: Dataset) -> str:
        """A text that differs whenever the weights would, for any average of them.

        Checkpoints of a constant rate match whatever `steps` and `decay` are; a finished training
        is one of these.
        """
        text = training_identity(self.recipe, dataset, Options(self.minutes))
        if self.recipe.decay:
            text += f" steps {self.recipe.steps} decay {self.recipe.decay}"
        return text


def known_names() -> list[str]:
    """What a study may change of a training."""
    fields = [name for name in Recipe.model_fields if name != "net" and name not in FIXED]
    nets = [NET + name for name in Net.model_fields if name != "options"]
    return [TRAIN + name for name in (*fields, *nets, "minutes", "ema_length")]


def is_whole(name: str) -> bool:
    """Whether the values of a name are whole numbers."""
    field, of_net = name.removeprefix(TRAIN), name.removeprefix(TRAIN).startswith(NET)
    fields = Net.model_fields if of_net else Recipe.model_fields
    found = fields.get(field.removeprefix(NET) if of_net else field)
    return found is not None and found.annotation is int


def variant_of(recipe: Recipe, changes: Mapping[str, Any]) -> Variant:
    """The recipe with fields changed, by names such as train.rate; an error of one line if a name
    is unknown or the recipe refuses a value."""
    fields, given = recipe.model_dump(), {}
    for name, text in changes.items():
        field, value = name.removeprefix(TRAIN), _value(text)
        if field in FIXED:
            raise UserError(f"{name}: {FIXED[field]}")
        if field.startswith(OPTIONS):
            fields["net"]["options"][field.removeprefix(OPTIONS)] = value
        elif name not in known_names():
            raise UserError(f"{name}: no such knob; known: {', '.join(known_names())}")
        elif field in Variant._fields:
            given[field] = _positive(name, value)
        elif field.startswith(NET):
            fields["net"][field.removeprefix(NET)] = value
        else:
            fields[field] = value
    if (length := given.get("ema_length")) is not None and length > LONGEST:
        raise UserError(f"train.ema_length = {length:g}: must be at most {LONGEST}")
    try:
        return Variant(Recipe.model_validate(fields), **given)
    except ValidationError as error:
        raise UserError(f"{TRAIN}{one_line(error)}") from None


def _value(text: Any) -> Any:
    """A list, true or false that a study keeps as text; anything else as it is."""
    if isinstance(text, str) and (text.startswith("[") or text in ("true", "false")):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or not value > 0:
        raise UserError(f"{name} = {value!r}: must be a number above 0")
    return float(value)
