"""Families of studies: one template and a table of what differs by dataset give many studies.

In a template "$name" stands for the dataset's value of that name, whatever it is; within a longer
text it must be words. A list in the place of an item of a list is put in item by item; "$name.0" is
the first item of a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from ablate.core.errors import UserError
from ablate.core.file_names import checked_name

FACTS = "datasets"
"""The file, beside the templates, that holds what differs by dataset."""

NAME = re.compile(r"\$(\w+(?:\.\w+)*)")
Tables = dict[str, Any]


class Member(NamedTuple):
    """One study of a family."""

    family: str
    template: Path
    facts: Mapping[str, Any]

    def fill(self, template: Tables) -> Tables:
        return {key: _filled(value, self) for key, value in template.items()}


def members(templates: Mapping[str, Path], facts: Tables, where: str) -> dict[str, Member]:
    """Every study of every family by its name, ordered by family and then by dataset."""
    found = {}
    for family, path in templates.items():
        for dataset, known in facts.items():
            checked_name(dataset, f"{where}: the name")
            if not isinstance(known, dict):
                raise UserError(f"{where}: {dataset}: must be a table (value {known!r})")
            wanted = known.get("families", [family])
            if not isinstance(wanted, list):
                raise UserError(f"{where}: {dataset}.families: must be a list (value {wanted!r})")
            if family in wanted:
                found[f"{dataset}-{family}"] = Member(family, path, known)
    return found


def _filled(value: Any, member: Member) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, member) for key, each in value.items()}
    if isinstance(value, list):
        return list(_spliced(value, member))
    if not isinstance(value, str):
        return value
    if whole := NAME.fullmatch(value):
        return _look_up(whole[1], member)
    return NAME.sub(lambda match: str(_look_up(match[1], member)), value)


def _spliced(items: list[Any], member: Member) -> Iterator[Any]:
    for item in items:
        filled = _filled(item, member)
        if isinstance(filled, list) and not isinstance(item, list):
            yield from filled
        else:
            yield filled


def _look_up(name: str, member: Member) -> Any:
    def within(table: Any, key: str) -> Any:
        return table[int(key) if isinstance(table, list) else key]

    try:
        return reduce(within, name.split("."), member.facts)
    except (KeyError, TypeError, ValueError, IndexError):
        raise UserError(f"{member.template}: ${name}: {FACTS}.toml has no such value") from None
