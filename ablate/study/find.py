"""Studies by name: files, families, and files that extend other studies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ablate.core.bounded_toml import bounded
from ablate.core.errors import UserError
from ablate.core.file_names import checked_name
from ablate.core.unknown_names import unknown
from ablate.core.workspace import Workspace
from ablate.study.definition import Study
from ablate.study.families import FACTS, Member, members
from ablate.study.file import validated
from ablate.study.resolve import resolve
from ablate.study.toml_file import read_tables

LONGEST_CHAIN = 20
"""Files that extend one another: nobody can follow more."""


class Source(NamedTuple):
    """The text of a study as tables, from one file or from a family's template."""

    name: str
    where: str  # the place of the text, for messages
    tables: dict[str, Any]
    family: str = ""

    @property
    def question(self) -> str:
        return validated(self.tables, self.where).question


def find(workspace: Workspace, name: str, seen: tuple[Path, ...] = ()) -> Source:
    """Find a study by its name, or by its path if it ends in .toml.

    seen: files that extend it. A file that extends a study of its own name means the one that it
        replaces.
    """
    if name.endswith(".toml"):
        return _from_file(workspace, workspace.file(name), seen)
    files = [folder[name] for folder in workspace.toml_folders() if name in folder]
    for path in reversed(files):
        if path.resolve() not in seen:
            return _from_file(workspace, path, seen)
    relatives = _relatives(workspace)
    if name in relatives:
        member = relatives[name]
        where = f"{name} ({member.template})"
        tables = bounded(member.fill(read_tables(member.template)), where)
        return Source(name, where, tables, member.family)
    if files:  # all of them extend this one
        raise UserError(_circle(seen, files[0]))
    raise UserError(unknown("study", name, names(workspace)))


def names(workspace: Workspace) -> dict[str, str]:
    """Every study with its family; studies of the workspace, which have none, come first."""
    try:
        relatives = {name: member.family for name, member in _relatives(workspace).items()}
    except UserError:  # see `broken_families`
        relatives = {}
    return dict.fromkeys(workspace.toml_files(), "") | {
        name: family for name, family in relatives.items() if name not in workspace.toml_files()
    }


def broken_families(workspace: Workspace) -> dict[str, str]:
    """What is wrong with the table that makes families of studies, if anything is."""
    try:
        _relatives(workspace)
    except UserError as error:
        return {f"families/{FACTS}": str(error)}
    return {}


def _relatives(workspace: Workspace) -> dict[str, Member]:
    files = workspace.toml_files("families")
    if FACTS not in files:
        return {}
    facts = files.pop(FACTS)
    return members(files, _facts(facts, facts.stat().st_mtime_ns), str(facts))


@cache
def _facts(file: Path, changed: int) -> dict[str, Any]:
    """What differs by dataset: every study of a family asks for it."""
    return read_tables(file)


def read(source: Source, budget: str, trials: int | None = None) -> Study:
    """The study of one budget; `trials` replaces the budget's number."""
    file = validated(source.tables, source.where)
    return resolve(file, source.name, budget, source.where, trials)


def _from_file(workspace: Workspace, path: Path, seen: tuple[Path, ...]) -> Source:
    """The file's tables, merged over those of the study or file that it extends."""
    name = checked_name(path.name.removesuffix(".toml"), f"study file {path}: its name")
    if path.resolve() in seen:
        raise UserError(_circle(seen, path))
    if len(seen) >= LONGEST_CHAIN:
        raise UserError(f"{seen[0]}: more than {LONGEST_CHAIN} files extend one another")
    tables, seen = read_tables(path), (*seen, path.resolve())
    if "extends" in tables:
        base = tables.pop("extends")
        if not isinstance(base, str):
            raise UserError(f"{path}: extends: must be a study or a file's name (value {base!r})")
        if base.endswith(".toml"):
            below = _from_file(workspace, path.parent / base, seen)
        else:
            below = find(workspace, base, seen)
        tables = bounded(_merged(below.tables, tables), str(path))
    return Source(name, str(path), tables)


def _circle(seen: tuple[Path, ...], again: Path) -> str:
    """a.toml: extends itself: a -> b -> a."""
    start = seen.index(again.resolve()) if again.resolve() in seen else 0
    names = [path.stem for path in (*seen[start:], again.resolve())]
    return f"{again}: extends itself: {' -> '.join(names)}"


def _merged(base: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables; everything else is replaced, and so is a searched knob as a whole. A knob that
    is searched now is no longer fixed."""
    merged = dict(base)
    for key, value in tables.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        if key == "search" and both:
            merged[key] = {**merged[key], **value}
        else:
            merged[key] = _merged(merged[key], value) if both else value
    searched, fixed = tables.get("search"), merged.get("fixed")
    if isinstance(searched, dict) and isinstance(fixed, dict):
        merged["fixed"] = {k: v for k, v in fixed.items() if k not in searched}
    return merged
