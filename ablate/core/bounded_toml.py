"""TOML text within bounds: a file may come from anywhere, and reading it must end, soon."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from ablate.core.errors import UserError, first_line

MOST_CHARACTERS = 1_000_000
"""Of a file: its parser takes a second for as many."""

MOST_ITEMS, MOST_NESTED = 2_000, 20
"""Items of a list or table, and lists within lists. A configuration is built and
checked for every choice and row, which takes seconds for ten thousand."""

DEEP_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}""", re.ASCII
)
"""A key of many parts, as a.a.a: the parser takes hours for half a million."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file. What is no file, as a pipe or a device, is not waited for."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"{path}: not a file")
            content = file.read(4 * MOST_CHARACTERS + 1)  # a character has at most 4 bytes
        if len(content) > 4 * MOST_CHARACTERS:
            most = f"{4 * MOST_CHARACTERS:,}"
            raise UserError(f"{path}: more than {most} bytes; at most {MOST_CHARACTERS:,} are read")
        return parse_toml(content.decode("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({type(error).__name__})") from None


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The tables of a text, bounded: reading a hostile file must end, and soon."""
    if len(text) > MOST_CHARACTERS:
        raise UserError(f"{where}: {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")
    if DEEP_KEY.search(text):
        raise UserError(f"{where}: a key is nested more than {MOST_NESTED} deep")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where}: not TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: its lists or tables are nested too deeply") from None
    except ValueError as error:  # of a number with thousands of digits
        raise UserError(f"{where}: not TOML: {first_line(error)}") from None
    return bounded(tables, where)


def bounded(tables: dict[str, Any], where: str) -> dict[str, Any]:
    """The tables, unless they are beyond all bounds: also those that were made of several."""
    if (wrong := _unreadable(tables)) is not None:
        raise UserError(f"{where}: {wrong}")
    return tables


def _unreadable(value: Any, key: str = "", depth: int = 0) -> str | None:
    """What in the tables is beyond all bounds; None if nothing is."""
    if depth > MOST_NESTED:
        return f"{key}: nested more than {MOST_NESTED} deep"
    if isinstance(value, int) and abs(value) >= 2**63:
        return f"{key}: a whole number beyond 64 bits"
    if not isinstance(value, dict | list):
        return None
    if len(value) > MOST_ITEMS:
        place = f"{key}: " if key else ""
        return f"{place}{len(value):,} items; at most {MOST_ITEMS:,} are allowed"
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = (_unreadable(each, f"{key}.{name}".strip("."), depth + 1) for name, each in items)
    return next((each for each in found if each is not None), None)
