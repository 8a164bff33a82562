"""Reporting how far a study is, to a progress bar or to nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Watcher(Protocol):
    """Receives the progress of a study, as a progress bar does."""

    def began(self, done: int, total: int, best: float | None) -> None:
        """The study starts with `done` of `total` trials finished; `best` is their best value of
        the first objective."""

    def advanced(self, share: float) -> None:
        """Another `share` of a trial is drawn."""

    def trained(self, steps: int) -> None:
        """A network that the study trains has taken so many steps."""

    def stands(self, done: int, best: float | None) -> None:
        """So many trials are finished, by this worker and all others."""

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
        """This worker has finished a trial."""


class Unwatched:
    """Reports to nobody."""

    def began(self, done: int, total: int, best: float | None) -> None: ...
    def advanced(self, share: float) -> None: ...
    def trained(self, steps: int) -> None: ...
    def stands(self, done: int, best: float | None) -> None: ...
    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None: ...


class CellProgress:
    """Reports calls of the network as shares of a trial, and can take them back."""

    def __init__(self, watcher: Watcher, share: float) -> None:
        """share: of the trial that one call is."""
        self._watcher, self._share, self._sum = watcher, share, 0.0

    def __call__(self, calls: int = 1) -> None:
        self._advance(calls * self._share)

    def fill(self, share: float) -> None:
        """Report what is missing up to `share`: calls that were not needed count as done."""
        self._advance(share - self._sum)

    def take_back(self) -> None:
        """Subtract everything reported so far: the cell is drawn again."""
        self._advance(-self._sum)

    def _advance(self, share: float) -> None:
        self._sum += share
        self._watcher.advanced(share)
