"""Registries: what users may add to, by name.

A registry holds small frozen records with everything that the rest of the package needs to know.
Another package adds a record by an entry point in its `pyproject.toml`:

    [project.entry-points."ablate.samplers"]
    my-sampler = "my_package.samplers:MY_SAMPLER"

The names of entry points are cheap to read; the record behind a name is imported when it is first
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar, cast

from ablate.core.errors import UserError, first_line
from ablate.core.unknown_names import unknown


class Named(Protocol):
    """A record with a name."""

    @property
    def name(self) -> str: ...


Record = TypeVar("Record", bound=Named)


class Registry(Mapping[str, Record], Generic[Record]):
    """Records of one kind by name: those of this package, then those of others, in that order."""

    def __init__(self, kind: str, group: str, record: type, ours: Iterable[Record]) -> None:
        """kind: the word for messages, such as "sampler"; group: the name of the group of entry
        points; record: the type that each of them must have; ours: this package's records."""
        self.kind, self.group, self._record = kind, group, record
        self._records = {each.name: each for each in ours}

    @cached_property
    def _foreign(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def __getitem__(self, name: str) -> Record:
        if name not in self._records:
            if name not in self._foreign:
                raise KeyError(name)
            self._records[name] = self._loaded(self._foreign[name])
        return self._records[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._records, **self._foreign})

    def __len__(self) -> int:
        return len({*self._records, *self._foreign})

    def __contains__(self, name: object) -> bool:
        return name in self._records or name in self._foreign

    def add(self, record: Record) -> Record:
        """Register a record for this process only, as in a notebook or a test."""
        if record.name in self:
            raise UserError(f"{self.kind} {record.name!r} is registered already")
        self._records[record.name] = record
        return record

    def remove(self, name: str) -> None:
        """Unregister a record that `add` registered."""
        del self._records[name]

    def unknown(self, name: str) -> str:
        """The message for a name that is not registered."""
        return unknown(self.kind, name, self)

    def _loaded(self, point: EntryPoint) -> Record:
        try:
            record: Any = point.load()
        except Exception as error:  # another package's module may raise anything on import
            raise UserError(
                f"{self.kind} {point.name!r}: {point.value} cannot be imported"
                f" ({first_line(error)})"
            ) from None
        if not isinstance(record, self._record) or getattr(record, "name", "") != point.name:
            raise UserError(
                f"{self.kind} {point.name!r}: {point.value} is not a"
                f" {self._record.__name__} of that name"
            )
        return cast(Record, record)


def resolved(reference: str | Callable[..., Any]) -> Callable[..., Any]:
    """The function that a reference "package.module:name" names; a function is returned as is.

    Records refer to functions of heavy modules by name, so that reading a registry imports none.
    """
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
