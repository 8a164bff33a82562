"""Knobs of the training recipe in study files: `train.rate`, `train.net.widths`, ….

A knob has a word or a number as its value, wherever a study keeps it. So a list such as widths, and
true and false, are written as text: `[32, 64]`. What the names and values mean is up to the recipe
(`training.variants`): reading a study file imports no torch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ablate.core.errors import UserError
from ablate.study.domain import Domain

TRAIN = "train."
"""Prefix of the knobs that belong to the training recipe."""

ONE_TABLE, MANY_TABLES = ("fixed", "base"), ("rows", "first", "steps")
"""Keys of a study file with one table of knobs, and with a list of such tables."""


def is_train(knob: str) -> bool:
    """Whether a knob belongs to the training recipe."""
    return knob.startswith(TRAIN)


def written_out(tables: Mapping[str, Any]) -> dict[str, Any]:
    """A study file's tables with `train.net.blocks = 2`, which TOML reads as tables within tables,
    under the one key "train.net.blocks", and values as words or numbers."""
    done = dict(tables)
    for key in ONE_TABLE:
        done |= {key: _knobs(done[key])} if isinstance(done.get(key), dict) else {}
    for key in MANY_TABLES:
        if isinstance(done.get(key), list):
            done[key] = [_knobs(row) if isinstance(row, dict) else row for row in done[key]]
    if isinstance(done.get("search"), dict):
        done["search"] = _searched(done["search"])
    if isinstance(done.get("budgets"), dict):
        budgets = done["budgets"].items()
        done["budgets"] = {k: written_out(v) if isinstance(v, dict) else v for k, v in budgets}
    return done


def _knobs(table: Mapping[str, Any]) -> dict[str, Any]:
    """One table of knobs and their values."""
    return dict(_flat(table, lambda _: True, _scalar))


def _searched(table: Mapping[str, Any]) -> dict[str, Any]:
    """The searched knobs with their domains; a domain is a table with a key such as `low`."""
    return dict(_flat(table, lambda below: not below.keys() & Domain.model_fields, _domain))


def _flat(
    table: Mapping[str, Any],
    is_prefix: Callable[[dict[str, Any]], bool],
    value_of: Callable[[Any], Any],
) -> Iterator[tuple[str, Any]]:
    """Knobs with their values; tables below `train` for which `is_prefix` holds are opened."""
    for name, value in table.items():
        below = isinstance(value, dict) and (name == "train" or is_train(name))
        if below and is_prefix(value):
            within = {f"{name}.{key}": each for key, each in value.items()}
            yield from _flat(within, is_prefix, value_of)
        else:
            yield name, value_of(value) if is_train(name) else value


def _scalar(value: Any) -> Any:
    """A list, true or false as text; words and numbers as they are."""
    return json.dumps(value) if isinstance(value, list | bool) else value


def _domain(domain: Any) -> Any:
    """A domain whose choices are words and numbers."""
    if isinstance(domain, list):
        return [_scalar(choice) for choice in domain]
    if isinstance(domain, dict) and isinstance(domain.get("choices"), list):
        return {**domain, "choices": [_scalar(choice) for choice in domain["choices"]]}
    return domain


def check_recipe(recipe: str, training_seeds: tuple[int, ...], knobs: Iterable[str]) -> None:
    """Raise a ValueError if knobs of a training, or training seeds, have no recipe."""
    trained = [knob for knob in knobs if is_train(knob)] + ["training_seeds"] * bool(training_seeds)
    if trained and not recipe:
        raise ValueError(f'{trained[0]}: name the training recipe that it changes, recipe = "NAME"')
    if len(set(training_seeds)) < len(training_seeds):
        raise ValueError(f"training_seeds repeat: {list(training_seeds)}")


def check_balance(seeds: Sequence[int], training_seeds: Sequence[int], what: str) -> None:
    """Raise an error unless all training seeds that are used have equally many sampling seeds."""
    uses = Counter(seed % len(training_seeds) for seed in seeds if training_seeds)
    if len(set(uses.values())) > 1:
        shares = ", ".join(f"{count} of {training_seeds[at]}" for at, count in sorted(uses.items()))
        raise UserError(
            f"{what} {list(seeds)}: seed s has the (s mod {len(training_seeds)})-th of the"
            f" training_seeds {list(training_seeds)}, which is {shares}: give each equally many"
        )
