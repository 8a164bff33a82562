"""Registries: what users may add to, by name.

A registry holds small frozen records that know everything the rest of the package asks of them.
Another package adds a record of its own by an entry point, in its `pyproject.toml`:

    [project.entry-points."ablate.samplers"]
    my-sampler = "my_package.samplers:MY_SAMPLER"

Names of entry points are read at once, which is cheap; the record behind a name is imported when
it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar, cast

from ablate.core.errors import UserError, first_line


class Named(Protocol):
    @property
    def name(self) -> str: ...


Record = TypeVar("Record", bound=Named)


class Registry(Mapping[str, Record], Generic[Record]):
    """Records of one kind by name: those of this package, then those of others, in that order."""

    def __init__(self, kind: str, group: str, record: type, ours: Iterable[Record]) -> None:
        """kind: the word for messages, such as "sampler"; group: of the entry points; record: the
        type that an entry point must lead to."""
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
        """Register a record of this process alone, as in a notebook or a test."""
        if record.name in self:
            raise UserError(f"{self.kind} {record.name!r} is registered already")
        self._records[record.name] = record
        return record

    def remove(self, name: str) -> None:
        """Take back what `add` registered."""
        del self._records[name]

    def unknown(self, name: str) -> str:
        """The message for a name that is not registered."""
        return f"{self.kind} {name!r} is unknown; known: {', '.join(self)}"

    def _loaded(self, point: EntryPoint) -> Record:
        try:
            found: Any = point.load()
        except Exception as error:  # whatever another package's module raises on import
            raise UserError(
                f"{self.kind} {point.name!r}: {point.value} cannot be imported"
                f" ({first_line(error)})"
            ) from None
        if not isinstance(found, self._record) or getattr(found, "name", "") != point.name:
            raise UserError(
                f"{self.kind} {point.name!r}: {point.value} is not a"
                f" {self._record.__name__} of that name"
            )
        return cast(Record, found)


def resolved(reference: str | Callable[..., Any]) -> Callable[..., Any]:
    """A function, given itself or as "package.module:name".

    Records name functions of heavy modules by reference, so that reading a registry imports none.
    """
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
