"""Pydantic's validation errors in one line."""

from __future__ import annotations

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
