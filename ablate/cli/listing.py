"""The studies that `ablate list` shows: their question and how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from ablate.core.errors import UserError
from ablate.core.unknown_names import nearest
from ablate.core.workspace import Workspace

if TYPE_CHECKING:
    from ablate.tracking.reader import Reader

NOT_RUN, BROKEN = "not run", "broken"


class Listed(NamedTuple):
    """A study, or what is wrong with its file."""

    study: str
    family: str  # empty: a file of its own
    question: str  # or the error
    state: str


def matching(workspace: Workspace, wanted: str) -> list[Listed]:
    """The studies whose name contains `wanted` or fits it as a pattern; an error if none does."""
    from ablate.study.find import broken_families, names

    families = names(workspace)
    chosen = {name: family for name, family in families.items() if fits(name, wanted)}
    errors = broken_families(workspace)
    if not chosen and (families or not errors):
        raise UserError(f"no study matches {wanted[:80]!r}; {_meant(wanted, families)}")
    states = _states(workspace)
    listed = [_listed(workspace, name, family, states) for name, family in chosen.items()]
    return listed + [Listed(name, "", error, BROKEN) for name, error in errors.items()]


def fits(name: str, wanted: str) -> bool:
    """Whether a name contains a text, or fits it if it is a pattern with *, ? or [."""
    if any(sign in wanted for sign in "*?["):
        return fnmatchcase(name, wanted)
    return wanted in name


def _meant(wanted: str, names: Iterable[str]) -> str:
    """A name, dataset or family like `wanted`."""
    parts = dict.fromkeys(part for name in names for part in (*name.split("-"), name))
    close = nearest(wanted, parts)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else "ablate list shows all"


def by_family(studies: Sequence[Listed]) -> list[list[tuple[str, str, str]]]:
    """Rows of a table, in groups."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for each in studies:
        groups.setdefault(each.family, []).append((each.study, each.question, each.state))
    return list(groups.values())


def _listed(workspace: Workspace, name: str, family: str, states: dict[str, str]) -> Listed:
    """One study; what is wrong with its file must not hide the others."""
    from ablate.study.find import find

    try:
        question = find(workspace, name).question
    except UserError as error:
        return Listed(name, family, str(error), BROKEN)
    return Listed(name, family, question, states.get(name, NOT_RUN))


def _states(workspace: Workspace) -> dict[str, str]:
    """Study -> how far it is; from a local file at once, from a server through MLflow."""
    if not workspace.has_record():
        return {}
    if workspace.is_local:
        from ablate.tracking.glance import progress

        if (states := progress(workspace)) is not None:
            return states
    from ablate.tracking.reader import Reader

    reader = Reader(workspace)
    try:
        names = reader.names()
    except UserError:  # no study has been run
        return {}
    return {name: state for name in names if (state := _state(reader, name))}


def _state(reader: Reader, name: str) -> str:
    """How far a study is; what is wrong with its record must not hide the others."""
    try:
        record = reader.latest(name)
    except UserError:
        return BROKEN
    return "" if record is None else record.progress()
