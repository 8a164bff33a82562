"""The JSON documents of a study's record, checked as they are read: others may have written them.

Only what results and reports rest on is asked for, and keys that older versions did not write may
be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ablate.core.errors import UserError
from ablate.results import OLD_VOCABULARY, Vocabulary

Check = Callable[[Any], bool]


def _is(*kinds: type) -> Check:
    return lambda value: (
        isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)
    )


TEXT, NUMBER, WHOLE, TABLE = _is(str), _is(int, float), _is(int), _is(dict)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _table_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _table_with(checks: Mapping[str, Check]) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(check(value.get(key)) for key, check in checks.items())
    )


NEEDED: Mapping[str, Check] = {
    "question": TEXT,
    "trials": lambda value: WHOLE(value) and value >= 0,
    "objectives": lambda value: (
        bool(value)
        and _list_of(
            _table_with({"metric": TEXT, "direction": lambda way: way in ("minimize", "maximize")})
        )(value)
    ),
}
"""What every study's document has."""

PERHAPS: Mapping[str, Check] = {
    "answers": TEXT,
    "method": TEXT,
    "bundle": TEXT,
    "samples": WHOLE,
    "seeds": _list_of(WHOLE),
    "search": TABLE,
    "fixed": TABLE,
    "constraints": _table_of(NUMBER),
    "first": _list_of(TABLE),
    "confirm": _table_with({"named": lambda value: value is None or _table_of(WHOLE)(value)}),
    "published": _list_of(_table_with({"metrics": TABLE})),
    "marks": _list_of(_table_with({"metrics": TABLE})),
}
"""What a study's document may have."""


def checked_study(document: Any, where: str) -> dict[str, Any]:
    """The document that defines a study. where: the start of the message."""
    if not isinstance(document, dict):
        raise UserError(f"{where}: not a study's record (a {type(document).__name__})")
    for key, check in {**NEEDED, **PERHAPS}.items():
        value = document.get(key)
        if not check(value) and (value is not None or key in NEEDED):
            raise UserError(f"{where}: not a study's record ({key} = {repr(value)[:60]})")
    return document


def checked_vocabulary(document: dict[str, Any], where: str) -> Vocabulary:
    """What the names of a study mean; of older records, whose document is empty, as it was then."""
    if not document:
        return OLD_VOCABULARY
    labels, leaking, knobs = (document.get(key) for key in ("labels", "leaking", "knobs"))
    names = _table_of(TEXT)
    if not (names(labels) and _list_of(TEXT)(leaking) and (knobs is None or names(knobs))):
        raise UserError(f"{where}: not a study's record (its vocabulary)")
    return Vocabulary(labels or {}, frozenset(leaking or ()), knobs or {})


def checked_table(document: Any, where: str, name: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UserError(f"{where}: not a study's record ({name} is no table)")
    return document


def checked_tables(document: Any, where: str, name: str) -> dict[str, Any]:
    """A document that is a table of tables, such as the protocols by metric."""
    if not _table_of(TABLE)(document):
        raise UserError(f"{where}: not a study's record ({name} is no table of tables)")
    return dict(document)
