"""Running one claimed trial: its cells, their record, its result.

Every cell is recorded completely before the next begins, and the search learns of a trial only when
all its cells are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from torch import Tensor

from ablate.core.signals import shielded
from ablate.core.validation import one_line
from ablate.experiment.artifacts import tags_of_confirmation, tags_of_trial
from ablate.experiment.cell_attempts import CellAttempts, OpenTrial, TakenOverError
from ablate.experiment.cell_elsewhere import Steps
from ablate.experiment.claims import Claim, item
from ablate.experiment.executors.executor import Executor
from ablate.experiment.leases import Leases
from ablate.experiment.networks import card_of
from ablate.experiment.prepare import Setup
from ablate.experiment.replicates import replicate
from ablate.experiment.rivals import Rivals
from ablate.experiment.shard_files import ShardFiles
from ablate.experiment.trial_cells import TrialCells
from ablate.experiment.watcher import Watcher
from ablate.generate.coarseness import coarseness
from ablate.generate.settings import Settings
from ablate.results import INTERVAL, summarise
from ablate.search import Ledger
from ablate.tracking.study_run import NOTHING_PAST, StudyRun
from ablate.tracking.vocabulary import CONFIRMS, REPEATS


class Runner:
    """Runs the trials that one worker claims."""

    def __init__(
        self,
        setup: Setup,
        ledger: Ledger,
        leases: Leases,
        record: StudyRun,
        tags: Mapping[str, str],
        watcher: Watcher,
        executor: Executor,
        shards: ShardFiles,
    ) -> None:
        """shards: where those of large cells are kept until the cell is recorded."""
        self._setup, self._study = setup, setup.study
        self._watcher, self._tags = watcher, tags
        self._ledger, self._leases, self._record = ledger, leases, record
        self._attempts = CellAttempts(setup, leases, record, watcher, executor, shards)
        self._rivals = Rivals(setup, record)

    def features(self, number: int, seed: int) -> Tensor:
        """The features of a finished cell of any trial, float16, [N, f]."""
        return self._rivals.features(number, seed)

    @property
    def open(self) -> dict[str, int]:
        """Runs to close if this worker is stopped, each with its trial."""
        return self._attempts.open

    def run(self, claim: Claim) -> Steps[str | None]:
        """Run a trial, unless another worker takes it over. Returns the reason if it fails."""
        try:
            settings = self._study.settings(claim.entry.params)
        except ValidationError as error:
            yield None
            return self._refuse(claim, one_line(error))
        try:
            return (yield from self._run(claim, settings))
        except TakenOverError:  # its open runs belong to the other worker now
            number = claim.entry.number
            for run_id in [run_id for run_id, trial in self.open.items() if trial == number]:
                del self.open[run_id]
            return None

    def _refuse(self, claim: Claim, reason: str) -> str:
        """Fail a configuration that is not valid. The check of the study's corners misses it when
        there are too many corners to check."""
        number, params = claim.entry.number, claim.entry.params
        with shielded():
            open_trial = self._record.reopen_trial if claim.again else self._record.open_trial
            run_id = open_trial(number, params, self._tags)
            self._record.close(run_id, "failed", reason, params=params)
            with self._leases.writing():
                self._ledger.fail(number)
        self._watcher.advanced(1.0)
        self._watcher.finished(number, "failed", {})
        return reason

    def _run(self, claim: Claim, settings: Settings) -> Steps[str | None]:
        repeats, seeds = replicate(self._study, claim.entry, claim.entries)
        confirms = claim.entry.confirms
        tags = {**self._tags, **({} if repeats is None else {REPEATS: str(repeats)})}
        if confirms is not None:
            seeds = self._study.confirm.seeds
            tags = {**self._tags, **tags_of_confirmation(self._setup, confirms)}
        with shielded():
            number = claim.entry.number
            past = self._record.past_cells(number) if claim.again else NOTHING_PAST
            trial, opened = self._begin(claim, settings, seeds[0], tags)
        field = None
        if repeats is None and confirms is None:
            field = self._rivals.choose(number, settings, claim.entries)
        cells = TrialCells(trial, seeds, past, field, self._rivals, self._attempts)
        yield from cells.run(opened, self._watcher)
        self._watcher.advanced(1 - cells.share * len(cells.metrics))  # what will not be drawn
        yield None
        if not self._leases.holds(trial.lease):
            raise TakenOverError
        self._conclude(trial, cells)
        return cells.reason if cells.state == "failed" else None

    def _begin(
        self, claim: Claim, settings: Settings, seed: int, tags: Mapping[str, str]
    ) -> tuple[OpenTrial, str | None]:
        """Open the trial's run. The second value is the run of its first cell, which a new trial
        opens in the same transaction."""
        number, knobs, cell = claim.entry.number, settings.knobs(), None
        card = card_of(self._setup.training, self._setup.bundle.card, settings)
        own = {**tags, **tags_of_trial(settings, card.recipe.net.classes)}
        if claim.again:
            run_id = self._record.reopen_trial(number, knobs, own)
            self.open[run_id] = number
        else:
            with self._record.at_once():
                run_id = self._record.open_trial(number, knobs, own)
                cell = self._record.open_cell(run_id, number, seed, tags)
            self.open.update({run_id: number, cell: number})
        samples = self._study.samples
        if claim.entry.confirms is not None:
            samples = self._study.confirm.samples or samples
        return OpenTrial(number, run_id, item(claim.entry), settings, tags, samples), cell

    def _conclude(self, trial: OpenTrial, cells: TrialCells) -> None:
        """Close the trial's run and report its result to the search."""
        trained = [self._study.training_seed(seed) for seed in cells.seeds]
        means, widths = summarise(cells.metrics, trained)
        goals = [o.metric for o in self._study.objectives if o.metric in means]
        metrics = {name: value for name, value in means.items() if name not in goals}
        metrics |= {name + INTERVAL: width for name, width in widths.items() if width}
        if (found := coarseness(trial.settings)) is not None:
            metrics["noise_ratio"] = found.ratio
        knobs = trial.settings.knobs()
        with shielded():
            with self._record.at_once():
                cells.close_last()
                for samples, values in cells.course(goals):
                    self._record.log(trial.run_id, values, step=samples)
                self._record.close(trial.run_id, cells.state, cells.reason, metrics, knobs)
            del self.open[trial.run_id]
            with self._leases.writing():
                self._report(trial.number, cells, means)
        again = CONFIRMS in trial.tags and cells.state == "complete"
        self._watcher.finished(trial.number, "confirmed" if again else cells.state, means)

    def _report(self, number: int, cells: TrialCells, means: Mapping[str, float]) -> None:
        """Write the trial's result to the search's database."""
        spent = sum(int(cell["nfe"] * cell["samples"]) for cell in cells.metrics)
        bounds = self._study.constraints.items()
        violations = {name: means[name] - bound for name, bound in bounds if name in means}
        if cells.state == "complete":
            values = [means[o.metric] for o in self._study.objectives]
            self._ledger.complete(number, values, violations)
        elif cells.state == "failed":
            self._ledger.fail(number, spent)
        else:
            value = means.get(self._study.objectives[0].metric)  # None if it diverged
            self._ledger.prune(number, violations, value, cells.samples, spent)
