"""Studies by name: files, families, and files that extend other studies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.study.definition import Study
from ablate.study.families import FACTS, Member, members
from ablate.study.file import read_tables, validated
from ablate.study.resolve import resolve


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
    files = {key: path for key, path in workspace.toml_files().items() if path not in seen}
    if name in files:
        return _from_file(workspace, files[name], seen)
    relatives = _relatives(workspace)
    if name not in relatives:
        known = ", ".join([*files, *relatives]) or "none"
        raise UserError(f"study {name!r} is unknown; known: {known}")
    member = relatives[name]
    tables = member.fill(read_tables(member.template))
    return Source(name, f"{name} ({member.template})", tables, member.family)


def names(workspace: Workspace) -> dict[str, str]:
    """Every study with its family; studies of the workspace, which have none, come first."""
    relatives = {name: member.family for name, member in _relatives(workspace).items()}
    return dict.fromkeys(workspace.toml_files(), "") | {
        name: family for name, family in relatives.items() if name not in workspace.toml_files()
    }


def _relatives(workspace: Workspace) -> dict[str, Member]:
    files = workspace.toml_files("families")
    if FACTS not in files:
        return {}
    facts = files.pop(FACTS)
    return members(files, read_tables(facts), str(facts))


def read(source: Source, budget: str, trials: int | None = None) -> Study:
    """The study of one budget; `trials` replaces the budget's number."""
    file = validated(source.tables, source.where)
    return resolve(file, source.name, budget, source.where, trials)


def _from_file(workspace: Workspace, path: Path, seen: tuple[Path, ...]) -> Source:
    """The file's tables, merged over those of the study or file that it extends."""
    tables = read_tables(path)
    if "extends" in tables:
        base = tables.pop("extends")
        if not isinstance(base, str):
            raise UserError(f"{path}: extends: must be a study or a file's name (value {base!r})")
        if path in seen:
            raise UserError(f"{path}: extends itself")
        if base.endswith(".toml"):
            below = _from_file(workspace, path.parent / base, (*seen, path))
        else:
            below = find(workspace, base, (*seen, path))
        tables = _merged(below.tables, tables)
    return Source(path.stem, str(path), tables)


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
