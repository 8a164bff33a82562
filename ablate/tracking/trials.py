"""Runs of the record -> trials with their cells."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ablate.core.coarseness import Coarseness
from ablate.results import Cell, Trial, Value, summarise
from ablate.tracking.vocabulary import (
    COARSENESS,
    DONE,
    KIND,
    KNOBS,
    REASON,
    SEED,
    TRAINING_SEED,
    RecordedRun,
    state_of,
    trial_number,
)


def trials_of(runs: Sequence[RecordedRun]) -> list[Trial]:
    """The trials by number, each with its finished cells."""
    cells: dict[int, dict[int, Cell]] = {}
    for run in runs:
        if run.data.tags[KIND] == "cell" and state_of(run) in DONE:
            tags, trained = run.data.tags, run.data.tags.get(TRAINING_SEED)
            metrics, training_seed = dict(run.data.metrics), int(trained) if trained else None
            cell = Cell(run.info.run_id, int(tags[SEED]), state_of(run), metrics, training_seed)
            # a worker that lost its lease may have drawn it, too
            cells.setdefault(trial_number(run), {}).setdefault(cell.seed, cell)
    of_trials: dict[int, RecordedRun] = {}
    for run in runs:  # a message that was sent twice makes two runs: take the finished one
        number = trial_number(run) if run.data.tags[KIND] == "trial" else -1
        if number >= 0 and (number not in of_trials or state_of(run) in DONE):
            of_trials[number] = run
    return [
        _trial(run, list(cells.get(number, {}).values()))
        for number, run in sorted(of_trials.items())
    ]


def merged(trials: list[Trial]) -> list[Trial]:
    """Add the cells of a repeated configuration to its first complete trial."""
    firsts: dict[str, int] = {}
    merged = list(trials)
    for index, trial in enumerate(trials):
        if trial.state != "complete":
            continue
        first = firsts.setdefault(str(sorted(trial.params.items())), index)
        if first == index:
            continue
        original = merged[first]
        known = {cell.seed for cell in original.cells}
        all_cells = [*original.cells, *(c for c in trial.cells if c.seed not in known)]
        merged[first] = _summarised(original._replace(cells=all_cells))
        reason = f"more seeds of trial {original.number}"
        merged[index] = trial._replace(state="repeated", reason=reason)
    return merged


def _summarised(trial: Trial) -> Trial:
    """The trial with the means and intervals of its cells."""
    means, intervals = summarise([cell.metrics for cell in trial.cells], trial.training_seeds)
    return trial._replace(metrics=means, intervals=intervals)


def _trial(run: RecordedRun, cells: list[Cell]) -> Trial:
    trial = Trial(
        run_id=run.info.run_id,
        number=trial_number(run),
        state=state_of(run),
        params=_knobs(run),
        metrics={},
        intervals={},
        reason=run.data.tags.get(REASON) or None,
        cells=sorted(cells, key=lambda cell: cell.seed),
        coarseness=_coarseness(run),
    )
    return _summarised(trial)


def _coarseness(run: RecordedRun) -> Coarseness | None:
    """The coarseness of a trial's run; None if it is not literal, and in older records."""
    if COARSENESS not in run.data.tags:
        return None
    numbers = json.loads(run.data.tags[COARSENESS])
    return Coarseness(**numbers | {"band": tuple(numbers["band"])})


def _knobs(run: RecordedRun) -> dict[str, Value]:
    """The knobs of a trial's run."""
    if KNOBS in run.data.tags:
        knobs: dict[str, Value] = json.loads(run.data.tags[KNOBS])
        return knobs
    return {k: _typed(v) for k, v in run.data.params.items()}  # records without the tag


def _typed(text: str) -> Value:
    """A parameter as a number if it is one: MLflow stores text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
