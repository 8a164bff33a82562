"""The record of one study: its run, and the runs of its trials and cells."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from ablate.tracking.client import Run, discard, fetch, runs_where
from ablate.tracking.inputs import InputLog
from ablate.tracking.run_names import trial_name
from ablate.tracking.study_note import BEST, NOTE, note, run_path
from ablate.tracking.transaction import at_once
from ablate.tracking.vocabulary import (
    BASELINE,
    CONFIRMS,
    DONE,
    KIND,
    KNOBS,
    OLD_BASELINE,
    PARENT,
    REASON,
    SEED,
    STUDY,
    TRIAL,
    VERSION,
    WORKED,
    Knobs,
    Tags,
    state_of,
)
from ablate.tracking.writer import Tracker

KILLED = "its process was killed"
"""Reason of a cell that another worker found RUNNING without a process."""


class DoneCell(NamedTuple):
    """A cell that an earlier process finished."""

    run_id: str
    state: str  # complete, diverged or pruned
    metrics: dict[str, float]
    reason: str | None


class PastCells(NamedTuple):
    """What earlier processes did of a trial, by seed."""

    done: dict[int, DoneCell]
    deaths: Counter[int]  # how many processes were killed while they ran the cell


NOTHING_PAST = PastCells({}, Counter())


class StudyRun:
    """An open study: creates the runs of its trials and cells, and finds those that exist."""

    def __init__(
        self,
        tracker: Tracker,
        experiment: str,
        run_id: str,
        key: str,
        varied: Sequence[str] = (),  # knobs, for the names of trials
        inputs: InputLog | None = None,
    ) -> None:
        self.run_id, self._varied, self._inputs = run_id, varied, inputs
        self.log, self.close, self.log_picture = tracker.log, tracker.close, tracker.log_picture
        self._reopen = tracker.reopen
        self._client, self._experiment, self._key = tracker.client, experiment, key

    # --- the study's own run -----------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether the study is complete: its status is the last thing that is written."""
        return state_of(self._client.get_run(self.run_id)) == "complete"

    def beside(self, tags: Tags) -> dict[str, str]:
        """The tags without versions of libraries that the study's run has, too."""
        own = self._client.get_run(self.run_id).data.tags
        return {k: v for k, v in tags.items() if not k.startswith(VERSION) or own.get(k) != v}

    def touch(self) -> None:
        """Mark the study as the one last worked on, though there was nothing to do."""
        self.log(self.run_id, tags={WORKED: now()})

    def close_all(self, state: str, reason: str | None = None) -> None:
        """Close the study's run, and every run under it that is still RUNNING."""
        for run in list(self._runs("attributes.status = 'RUNNING'")):
            if run.info.run_id != self.run_id:
                self._interrupt(run, "its process was stopped")
        self.close(self.run_id, state, reason)

    def interrupt(self, run_id: str, reason: str) -> None:
        """Close a trial's or a cell's run that will be continued or run again."""
        self._interrupt(self._client.get_run(run_id), reason)

    def _interrupt(self, run: Run, reason: str) -> None:
        """Close a run; of a cell, which is drawn again, delete the files first: if this process
        is killed in between, the run is still open."""
        if run.data.tags.get(KIND) == "cell":
            discard(self._client, run)
        self.close(run.info.run_id, "interrupted", reason)

    def has_baselines(self) -> bool:
        metrics = self._client.get_run(self.run_id).data.metrics
        return any(name.startswith((BASELINE, OLD_BASELINE)) for name in metrics)

    def log_baselines(self, baselines: Mapping[str, Mapping[str, float]]) -> None:
        flat = {
            f"{BASELINE}{name}/{metric}": value
            for name, metrics in baselines.items()
            for metric, value in metrics.items()
        }
        self.log(self.run_id, flat)

    def name_best(self, number: int) -> None:
        """Link the best trial at the top of the study's page."""
        run, study = next(self._trial_runs(number, "trial")), self._client.get_run(self.run_id)
        link = f"[{run.info.run_name}]({run_path(self._experiment, run.info.run_id)})"
        text = note(study.data.tags.get(NOTE, ""), BEST + link)
        self.log(self.run_id, tags={NOTE: text})

    def log_document(self, name: str, document: object) -> None:
        """Write a JSON artifact."""
        self._client.log_text(self.run_id, json.dumps(document, indent=1), name)

    # --- trials and cells --------------------------------------------------------------------

    def at_once(self) -> AbstractContextManager[None]:
        """One transaction for everything that the block opens, or for everything it closes."""
        return at_once(self._client)

    def has_trial(self, number: int) -> bool:
        return next(self._trial_runs(number, "trial"), None) is not None

    def open_trial(self, number: int, knobs: Knobs, tags: Tags) -> str:
        """The id of a trial's new run."""
        tags = {**tags, TRIAL: str(number), KNOBS: json.dumps(dict(knobs))}
        name = trial_name(number, knobs, self._varied, tags.get(CONFIRMS))
        with self.at_once():
            run_id = self._create("trial", name, self.run_id, tags)
            if self._inputs is not None:
                self._inputs.write(run_id)
        return run_id

    def reopen_trial(self, number: int, knobs: Knobs, tags: Tags) -> str:
        """The id of the run of a trial that another worker began; a new run if it has none."""
        run = next(self._trial_runs(number, "trial"), None)
        if run is None:
            return self.open_trial(number, knobs, tags)
        self._reopen(run.info.run_id, tags)
        return str(run.info.run_id)

    def open_cell(self, trial_run: str, number: int, seed: int, tags: Tags) -> str:
        """The id of a cell's new run."""
        tags = {**tags, TRIAL: str(number), SEED: str(seed)}
        return self._create("cell", f"#{number} seed {seed}", trial_run, tags)

    def past_cells(self, number: int) -> PastCells:
        """The cells of a trial that other workers began. Those that are RUNNING are closed."""
        past = PastCells({}, Counter())
        for run in list(self._trial_runs(number, "cell")):
            seed = int(run.data.tags[SEED])
            if run.info.status == "RUNNING":
                self._interrupt(run, KILLED)
                past.deaths[seed] += 1
            elif (cell := _done(run)) is not None:
                past.done.setdefault(seed, cell)
            elif run.data.tags.get(REASON) == KILLED:
                past.deaths[seed] += 1
        return past

    def cell_run(self, number: int, seed: int) -> str:
        """The id of the run of a finished cell."""
        runs = self._trial_runs(number, "cell")
        return next(
            str(run.info.run_id)
            for run in runs
            if run.data.tags[SEED] == str(seed) and _done(run) is not None
        )

    def log_file(self, run_id: str, file: Path) -> None:
        """Write a file as an artifact."""
        self._client.log_artifact(run_id, str(file))

    def log_files(self, run_id: str, folder: Path) -> None:
        """Write every file of a folder as an artifact."""
        self._client.log_artifacts(run_id, str(folder))

    def fetch(self, run_id: str, name: str) -> Path:
        """Download an artifact and return its local path."""
        return fetch(self._client, run_id, name)

    def _runs(self, where: str) -> Iterator[Run]:
        return runs_where(
            self._client, self._experiment, f"tags.`{STUDY}` = '{self._key}' and {where}"
        )

    def _trial_runs(self, number: int, kind: str) -> Iterator[Run]:
        return self._runs(f"tags.`{TRIAL}` = '{number}' and tags.`{KIND}` = '{kind}'")

    def _create(self, kind: str, name: str, parent: str, tags: Tags) -> str:
        tags = {**tags, KIND: kind, STUDY: self._key, PARENT: parent}
        with at_once(self._client):
            run = self._client.create_run(self._experiment, tags=tags, run_name=name)
        return str(run.info.run_id)


def _done(run: Run) -> DoneCell | None:
    state, reason = state_of(run), run.data.tags.get(REASON) or None
    if state not in DONE:
        return None
    return DoneCell(run.info.run_id, state, dict(run.data.metrics), reason)


def now() -> str:
    """The time as a tag."""
    return f"{time.time():.3f}"
