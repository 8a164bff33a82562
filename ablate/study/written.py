"""A study as the text of a study file: to be read, edited and run.

Families and files that extend others are written out, so the text stands alone. Reading it gives
the same study: with the file called as the study is, also the same hash.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ablate.core.errors import UserError
from ablate.core.plain_text import steers
from ablate.study.file import validated
from ablate.study.find import Source

TABLES = ("fixed", "search", "base", "confirm", "constraints")
"""Keys that get a section of their own, with a line for each knob."""

BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
"""Characters of keys that need no quotes."""

LONG = 88
"""Characters of a line beyond which the items of a list get a line each."""


def study_text(source: Source, budget: str | None = None) -> str:
    """The study as TOML, after checking it; with `budget`, without the others."""
    file = validated(source.tables, source.where)
    tables = dict(source.tables)
    if budget is not None:
        if budget not in file.budgets:
            have = ", ".join(file.budgets)
            raise UserError(f"{source.where}: budgets.{budget} is not there; the study has {have}")
        tables["budgets"] = {budget: tables["budgets"][budget]}
    return "\n".join([*_head(source), *toml_lines(tables)]) + "\n"


def _head(source: Source) -> Iterator[str]:
    yield f"# {source.name}: save as {source.name}.toml, edit, and run it:"
    yield f"#   ablate study ./{source.name}.toml"


def toml_lines(tables: Mapping[str, Any]) -> Iterator[str]:
    """A study's tables as lines: single values, then sections, the budgets last."""
    sections = {key: tables[key] for key in TABLES if isinstance(tables.get(key), Mapping)}
    for key, value in tables.items():
        if key not in (*sections, "budgets"):
            yield _line(key, value)
    for name, section in sections.items():
        yield from ("", f"[{name}]")
        yield from (_line(key, value) for key, value in section.items())
    for name, section in tables.get("budgets", {}).items():
        yield from ("", f"[budgets.{_key(name)}]")
        yield from (_line(key, value) for key, value in section.items())


def _line(key: str, value: Any) -> str:
    whole = f"{_key(key)} = {_value(value)}"
    if not isinstance(value, list | tuple) or len(whole) <= LONG:
        return whole
    items = "".join(f"    {_value(each)},\n" for each in value)
    return f"{_key(key)} = [\n{items}]"


def _key(key: str) -> str:
    return key if key and BARE.issuperset(key) else _text(key)


def _value(value: Any) -> str:
    """TOML of any value that a study file may hold, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return str(value)


def _number(value: float) -> str:
    """A float that reads back as the same float."""
    if math.isnan(value):
        return "nan"
    return repr(value)  # inf and -inf are TOML, too


def _text(value: str) -> str:
    """A text in quotes: JSON's escapes are TOML's, and what steers a display is escaped, too."""
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(f"\\U{ord(c):08x}" if steers(c) else c for c in quoted)
