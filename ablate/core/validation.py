"""Pydantic's validation errors in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import BaseModel, ValidationError


def one_line(error: ValidationError) -> str:
    """The first error: its key, the broken rule and the value."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"] if not _is_internal(part))
    rule = first["msg"].removeprefix("Value error, ")
    value = first.get("input")
    shown = (
        ""
        if isinstance(value, dict | BaseModel) or first["type"] == "missing"
        else f" (value {value!r})"
    )
    return f"{key}: {rule}{shown}" if key else f"{rule}{shown}"


def _is_internal(part: object) -> bool:
    """Whether pydantic put this part into the location for one of its validators."""
    return isinstance(part, str) and (
        "function-" in part or part in {"[key]", "str", "int", "float"}
    )


def not_finite(value: object, key: str = "") -> str | None:
    """The key of the first number that is a NaN or an infinity, such as recipe.rate; None if there
    is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{key} = {value}"
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        return None
    found = (not_finite(each, f"{key}.{name}".strip(".")) for name, each in value.items())
    return next((each for each in found if each is not None), None)
