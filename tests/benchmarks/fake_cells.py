"""Cells that sleep in place of drawing, for benchmarks of all that surrounds a cell."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Sleep:
    """A job: sleeps, then returns its value."""

    seconds: float
    value: float = 0.0

    def __call__(self, _: object) -> float:
        time.sleep(self.seconds)
        return self.value


def result(value: float) -> SimpleNamespace:
    """What the record needs of a cell's result."""
    metrics = {"kid": value, "nfe": 1.0, "samples": 64.0}
    # a cell without features is not compared with others
    return SimpleNamespace(state="complete", reason=None, metrics=metrics, rungs={}, features=None)


def objective(knobs: Any) -> float:
    return float(knobs["r"]) * float(knobs["L"])


def install(seconds: float) -> None:
    """In this process cells sleep from now on, and nothing is drawn, measured or compared."""
    from ablate.experiment import cell_attempts, worker

    def elsewhere(_: object, asked: Any, *__: object) -> Any:
        (value,) = yield [Sleep(seconds, objective(asked.settings.knobs()))]
        return result(value)

    def here(_: object, settings: Any, *__: object) -> SimpleNamespace:
        return result(Sleep(seconds, objective(settings.knobs()))(None))

    drawing: Any = cell_attempts
    drawing.cell_elsewhere, drawing.run_cell = elsewhere, here
    drawing.record_files = lambda *_: None
    made_up: Any = worker
    made_up.baselines, made_up.importance = lambda _: {}, lambda *_: {}
    made_up.Worker._compare = lambda *_: None
