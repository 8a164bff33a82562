"""Running one cell: up to three attempts, each with a run in the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ablate.core.signals import shielded
from ablate.experiment.artifacts import record_files
from ablate.experiment.cell import CellResult, Judge, run_cell
from ablate.experiment.cell_elsewhere import (
    Asked,
    Steps,
    cell_elsewhere,
    has_shards,
    with_also,
)
from ablate.experiment.executors.executor import Executor, JobError, KilledError, UnfitError
from ablate.experiment.leases import Leases
from ablate.experiment.networks import Networks
from ablate.experiment.prepare import Setup
from ablate.experiment.shard_files import ShardFiles
from ablate.experiment.train_job import TrainJob
from ablate.experiment.watcher import CellProgress, Watcher
from ablate.generate.draw import BATCH
from ablate.generate.settings import Settings
from ablate.tracking.study_run import StudyRun
from ablate.tracking.vocabulary import CONFIRMS

ATTEMPTS = 3
"""Attempts at a cell that raises an error, before its trial fails."""


class CellError(Exception):
    """Every attempt at a cell failed; the message is the last reason."""


class TakenOverError(Exception):
    """Another worker holds the trial: this one did not renew its lease in time."""


class OpenTrial(NamedTuple):
    """A trial whose run is open in the record."""

    number: int
    run_id: str
    lease: str
    settings: Settings
    tags: Mapping[str, str]
    samples: int  # for each seed


class DrawnCell(NamedTuple):
    """A cell whose files are in the record and whose run is still to be closed."""

    run_id: str
    seed: int
    result: CellResult


def _reason(error: Exception, seed: int) -> str:
    """Why an attempt failed, as the record has it."""
    if isinstance(error, KilledError):
        return f"seed {seed}: {error}"
    return str(error) if isinstance(error, JobError) else f"{type(error).__name__}: {error}"


class CellAttempts:
    """Runs cells and records them, for one worker."""

    def __init__(
        self,
        setup: Setup,
        leases: Leases,
        record: StudyRun,
        watcher: Watcher,
        executor: Executor,
        shards: ShardFiles,
    ) -> None:
        """executor: if it does jobs in this process, small cells are drawn without it."""
        self._setup, self._leases, self._record = setup, leases, record
        self._watcher, self._executor, self._shards = watcher, executor, shards
        self._networks = Networks(setup.study, setup.bundle, setup.training, watcher)
        self.open: dict[str, int] = {}  # runs to close if this worker is stopped -> their trial

    @property
    def here(self) -> bool:
        """Whether cells are drawn in this process, so that its death may be a cell's doing."""
        return self._executor.here

    def draw(
        self, trial: OpenTrial, seed: int, opened: str | None, share: float, judge: Judge | None
    ) -> Steps[DrawnCell]:
        """Draw and measure a cell, and write its files. `opened` is the run of the first attempt if
        it is open already; `share` is the cell's part of the trial."""
        calls = trial.settings.nfe * -(-trial.samples // BATCH)
        for _ in range(ATTEMPTS):
            run_id, opened = opened or self._open(trial, seed), None
            progress = CellProgress(self._watcher, share / calls)
            try:
                yield from self._trained(trial, seed)
                setup = self._with_network(trial, run_id, seed)
                result = yield from self._drawn(setup, trial, seed, progress, judge)
            except UnfitError:  # no other cell would fare better
                raise
            except Exception as error:  # an error of one configuration must not stop the study
                progress.take_back()
                killed, reason = isinstance(error, KilledError), _reason(error, seed)
                with shielded():
                    self._record.close(run_id, "failed", reason)
                    del self.open[run_id]
                if killed:
                    break
                continue
            progress.fill(share)
            self._record_files(trial, run_id, seed, result)
            return DrawnCell(run_id, seed, result)
        self._shards.drop(trial.settings, seed, trial.samples)
        raise CellError(reason)

    def _trained(self, trial: OpenTrial, seed: int) -> Steps[None]:
        """Have the cell's network trained by another process of this machine, if there is one;
        otherwise it is trained here, when it is read."""
        training = self._setup.training
        if training is None or self._executor.here or not self._executor.local:
            return
        if not self._networks.is_there(trial.settings, seed):
            yield [TrainJob(training.workspace, trial.settings, seed)]

    def _with_network(self, trial: OpenTrial, run_id: str, seed: int) -> Setup:
        """What the cell is drawn with: its network may have to be trained first."""
        network = self._networks.of(trial.settings, seed)
        if network.training_seed is not None:
            with shielded():
                self._record.log(run_id, tags=network.cell_tags)
                self._record.log(trial.run_id, tags=network.trial_tags)
        return self._setup._replace(bundle=network.bundle)

    def _drawn(
        self,
        setup: Setup,
        trial: OpenTrial,
        seed: int,
        progress: CellProgress,
        judge: Judge | None,
    ) -> Steps[CellResult]:
        """A cell; what confirms a configuration is measured by further extractors, too."""
        also = CONFIRMS in trial.tags
        own = None if setup.bundle is self._setup.bundle else setup.bundle
        asked = Asked(trial.settings, seed, trial.samples, own, also)
        if not self._executor.here or has_shards(asked, judge):

            def told(samples: int) -> None:
                progress(trial.settings.nfe * -(-samples // BATCH))

            return (yield from cell_elsewhere(self._setup, asked, judge, self._shards, told))
        result = run_cell(setup, trial.settings, seed, progress, judge, trial.samples)
        return with_also(setup, result) if also else result

    def close(self, cell: DrawnCell, trial: OpenTrial) -> None:
        """Write a cell's metrics, by the number of samples that they are of, and its status; unless
        another worker took over, which has deleted the cell's files."""
        result, params = cell.result, {**trial.settings.knobs(), "seed": cell.seed}
        with shielded():
            if not self._leases.holds(trial.lease):
                raise TakenOverError
            for samples, metrics in result.rungs.items():
                self._record.log(cell.run_id, metrics, step=samples)
            drawn = int(result.metrics["samples"])
            self._record.close(
                cell.run_id, result.state, result.reason, result.metrics, params, drawn
            )
            del self.open[cell.run_id]
        self._shards.drop(trial.settings, cell.seed, trial.samples)

    def _open(self, trial: OpenTrial, seed: int) -> str:
        with shielded():
            run_id = self._record.open_cell(trial.run_id, trial.number, seed, trial.tags)
            self.open[run_id] = trial.number
        return run_id

    def _record_files(self, trial: OpenTrial, run_id: str, seed: int, result: CellResult) -> None:
        with shielded():
            if not self._leases.holds(trial.lease):
                self._record.close(run_id, "interrupted", "another worker took over")
                raise TakenOverError
            first = seed in (self._setup.study.seeds[0], *self._setup.study.confirm.seeds[:1])
            shown_by = trial.run_id if first else None
            record_files(self._record, run_id, shown_by, result, self._setup)
