"""Which trials cannot be distinguished from the best."""

from __future__ import annotations

from typing import NamedTuple

from ablate.report.confirmed import ALPHA, confirmed_best, distinguished
from ablate.report.ranking import contenders
from ablate.report.standing import indistinguishable
from ablate.results import StudyResults, Trial


class Alike(NamedTuple):
    """The best trial, those that cannot be distinguished from it, and how that was decided."""

    best: Trial | None
    tied: list[Trial]
    how: str

    def marks(self) -> dict[int, str]:
        """best or tied, by the trial's id(): trials of several studies share numbers."""
        best = {} if self.best is None else {id(self.best): "best"}
        return {id(trial): "tied" for trial in self.tied} | best


def alike(record: StudyResults) -> Alike:
    """By pairs on the same noise, corrected by Holm: on fresh seeds where these measured the trials
    again, else over the search's samples, as in a report. Trials of several studies share no noise:
    by whether intervals overlap. A trial without an interval is not compared."""
    field = contenders(record)
    if not field:
        return Alike(None, [], "no trial is complete yet")
    confirmed = confirmed_best(record)
    numbers = {trial.number: trial for trial in field} if confirmed else {}
    best = numbers.get(confirmed["trial"], field[0]) if confirmed else field[0]
    near, how = _near(record, best)
    if confirmed and distinguished(record, best.number):
        how = f"p >= {ALPHA:g} in pairs on fresh seeds (Holm), or if not drawn: {how}"
    elif record.objectives[0].metric not in best.intervals:
        return Alike(best, [], "no intervals, so what ties with the best is not known")
    return Alike(best, [t for t in field if t is not best and id(t) in near], how)


def _near(record: StudyResults, best: Trial) -> tuple[set[int], str]:
    """The id() of each trial that ties with the best, and how that is decided in the search."""
    if not any("study" in trial.params for trial in record.trials):
        found = indistinguishable(record, best)
        if found is not None:
            return {id(trial) for trial in found}, f"p >= {ALPHA:g} in pairs (Holm)"
    apart = distinguished(record, best.number)
    field = contenders(record)
    near = {id(t) for t in field if not apart.get(t.number, not _overlap(record, t, best))}
    return near, "its 95 % interval overlaps the best one's"


def _overlap(record: StudyResults, trial: Trial, best: Trial) -> bool:
    metric = record.objectives[0].metric
    if metric not in trial.intervals or metric not in best.intervals:
        return False
    gap = abs(trial.metrics[metric] - best.metrics[metric])
    return gap <= trial.intervals[metric] + best.intervals[metric]
