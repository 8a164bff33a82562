"""The cells of one trial, seed by seed: drawn now, or read from the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from torch import Tensor

from ablate.experiment.cell import Judge
from ablate.experiment.cell_attempts import CellAttempts, CellError, DrawnCell, OpenTrial
from ablate.experiment.cell_elsewhere import Steps
from ablate.experiment.early_stopping import Field
from ablate.experiment.executors.executor import DEATHS
from ablate.experiment.rivals import Rivals
from ablate.experiment.watcher import Watcher
from ablate.tracking.study_run import PastCells


class TrialCells:
    """The cells of one trial, up to the first that diverges or is pruned."""

    def __init__(
        self,
        trial: OpenTrial,
        seeds: tuple[int, ...],
        past: PastCells,
        field: Field | None,
        rivals: Rivals,
        attempts: CellAttempts,
    ) -> None:
        self._trial, self._seeds, self._attempts = trial, seeds, attempts
        self._past = past  # cells that other workers ran
        self._field, self._rivals = field, rivals
        self._last: DrawnCell | None = None  # the cell whose run is still to be closed
        self._features: dict[int, Tensor] = {}  # by seed
        self.share = 1 / len(seeds)  # a cell's part of the trial
        self.metrics: list[dict[str, float]] = []  # of each cell
        self.state = "complete"
        self.reason: str | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the cells that have metrics."""
        return self._seeds[: len(self.metrics)]

    @property
    def samples(self) -> int:
        return int(sum(cell["samples"] for cell in self.metrics))

    def course(self, metrics: Sequence[str]) -> Iterator[tuple[int, dict[str, float]]]:
        """(samples, means of `metrics`, which all cells have) after each cell."""
        for count in range(1, len(self.metrics) + 1 if metrics else 0):
            done = self.metrics[:count]
            samples = int(sum(cell["samples"] for cell in done))
            yield samples, {name: fmean(cell[name] for cell in done) for name in metrics}

    def run(self, opened: str | None, watcher: Watcher) -> Steps[None]:
        """Run the cells that other workers have not run. `opened` is the run of the first cell, if
        it is open."""
        try:
            for seed in self._seeds:
                self.close_last()
                judge = self._judge(seed)
                if seed in self._past.done:
                    self._read(seed)
                    watcher.advanced(self.share)
                else:
                    yield from self._draw(seed, opened, judge)
                    opened = None
                if self.state == "complete" and judge and seed != self._seeds[-1]:
                    self.reason = judge(self._features.pop(seed))
                    self.state = "pruned" if self.reason else self.state
                if self.state != "complete":
                    break
        except CellError as error:
            self.state, self.reason = "failed", str(error)

    def close_last(self) -> None:
        """Close the run of the cell drawn last, if it is open."""
        last, self._last = self._last, None
        if last is not None:
            self._attempts.close(last, self._trial)

    def _judge(self, seed: int) -> Judge | None:
        if self._field is None:
            return None
        return self._rivals.judge(self._field, self._features, seed)

    def _read(self, seed: int) -> None:
        """Take over a cell that another worker finished."""
        cell = self._past.done[seed]
        if self._field:
            self._features[seed] = self._rivals.features(self._trial.number, seed)
        self._add(cell.state, cell.reason, cell.metrics)

    def _draw(self, seed: int, opened: str | None, judge: Judge | None) -> Steps[None]:
        """Draw a cell. The first is compared with the best at every rung, others at the end."""
        deaths = self._past.deaths[seed] if self._attempts.here else 0  # else the executor counts
        if deaths >= DEATHS:
            raise CellError(f"seed {seed}: its process was killed {deaths} times")
        at_rungs = judge if seed == self._seeds[0] else None
        self._last = yield from self._attempts.draw(self._trial, seed, opened, self.share, at_rungs)
        result = self._last.result
        self._features[seed] = result.features
        self._add(result.state, result.reason, result.metrics)

    def _add(self, state: str, reason: str | None, metrics: dict[str, float]) -> None:
        self.state, self.reason = state, reason
        self.metrics.append(metrics)
