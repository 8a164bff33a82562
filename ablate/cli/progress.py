"""Progress on long work: a bar in a terminal, lines of text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ablate.cli.console import console, width
from ablate.results import Objective

WIDE = 80
"""Characters of a terminal from which on a bar has room beside the numbers."""


def _progress() -> Progress:
    times = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
    wide = (width() or WIDE) >= WIDE
    return Progress(
        TextColumn("{task.description}"),
        *([BarColumn()] if wide else []),
        TextColumn("{task.fields[count]}"),
        *(times if wide else times[-1:]),
        TextColumn("{task.fields[news]}"),
        console=console,
        disable=not sys.stdout.isatty() or console.is_dumb_terminal,
    )


class StudyBar:
    """A study's progress: a bar in a terminal, one line a trial elsewhere."""

    def __init__(self, name: str, objectives: Sequence[Objective]) -> None:
        self._name, self._objective = name, objectives[0]
        self._best: float | None = None
        self._progress = _progress()
        self._done = self._total = 0

    def __enter__(self) -> StudyBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def began(self, done: int, total: int, best: float | None) -> None:
        self._done, self._total, self._best = done, total, best
        self._task = self._progress.add_task(
            self._name, total=total, completed=done, count=self._count(), news=""
        )

    def advanced(self, share: float) -> None:
        self._progress.advance(self._task, share)

    def trained(self, steps: int) -> None:
        news = f"training a network: {steps:,} steps"
        self._progress.update(self._task, news=news)

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
        self._done += 1
        metric = self._objective.metric
        if state == "complete":
            better = min if self._objective.sign > 0 else max
            value = metrics[metric]
            self._best = value if self._best is None else better(self._best, value)
        best = self._news()
        self._progress.update(self._task, completed=self._done, count=self._count(), news=best)
        if self._progress.disable:
            shown = f"{metric} {metrics[metric]:.4g}" if metric in metrics else ""
            print(f"trial {number:3d}  {state:9s} {shown:16s} {self._count()}  {best}", flush=True)

    def stands(self, done: int, best: float | None) -> None:
        """Show how many trials are finished, by this worker and others."""
        new, self._done, self._best = done > self._done, max(done, self._done), best
        if new:
            self._progress.update(
                self._task, completed=self._done, count=self._count(), news=self._news()
            )
        if new and self._progress.disable:
            print(f"{self._count()}  {self._news()}", flush=True)

    def _news(self) -> str:
        return "" if self._best is None else f"best {self._objective.metric} {self._best:.4g}"

    def _count(self) -> str:
        return f"{self._done}/{self._total} trials"


class Tick(Protocol):
    def __call__(
        self, step: int, loss: float | None = None, total: int | None = None, pace: str = ""
    ) -> None: ...


@contextmanager
def counting_bar(name: str, total: int, unit: str) -> Iterator[Tick]:
    """A bar that counts; yields `tick(step, loss, total, pace)`, all but the step optional.

    total: replaces the planned total; pace: a text such as "150 images/s". Where there is no
    terminal, a line for each twentieth takes the bar's place.
    """
    progress, planned, shown = _progress(), total, 0
    with progress:
        task = progress.add_task(name, total=total, count="", news="")

        def tick(
            step: int, loss: float | None = None, total: int | None = None, pace: str = ""
        ) -> None:
            nonlocal shown
            total = total or planned
            text = f"{step}/{total} {unit}"
            news = f"{'' if loss is None else f'loss {loss:.4f}'}  {pace}".strip()
            progress.update(task, completed=step, total=total, count=text, news=news)
            twentieths = 20 * step // max(total, 1)
            if progress.disable and twentieths > shown:
                shown = twentieths
                print(f"{name}  {text}  {news}".rstrip(), flush=True)

        yield tick


@contextmanager
def image_bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar that counts images; yields a function to call with the number of images just done.

    Its pace is that after the first call, which may bring what an earlier process did.
    """
    first: tuple[float, int] | None = None  # when it was called, and the images done by then
    done = 0
    with counting_bar(name, total, "images") as tick:

        def advance(images: int) -> None:
            nonlocal first, done
            now = time.perf_counter()
            done += images
            if first is None:
                first = now, done
                tick(done)
                return
            rate = (done - first[1]) / max(now - first[0], 1e-9)
            left = (total - done) / rate
            tick(done, pace=f"{rate:,.{0 if rate > 20 else 1}f} images/s, {left / 60:.1f} min left")

        yield advance
