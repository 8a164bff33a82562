"""Whether a study that is about to begin is another one than its user may mean to continue."""

from __future__ import annotations

from ablate.core.workspace import Workspace
from ablate.experiment.artifacts import BUNDLE
from ablate.experiment.prepare import Setup
from ablate.tracking.client import Run, runs_where
from ablate.tracking.vocabulary import BUDGET, KIND, STUDY, WORKED, state_of
from ablate.tracking.writer import Tracker


def begun_with_another(setup: Setup, workspace: Workspace) -> str | None:
    """What to say if the study last worked on, by this name and budget, is not complete and has
    another bundle; None if there is nothing to say."""
    study = setup.study
    if not workspace.has_record():
        return None
    client = Tracker(workspace).client
    experiment = client.get_experiment_by_name(study.name)
    if experiment is None:
        return None
    where = f"tags.`{KIND}` = 'study' and tags.`{BUDGET}` = '{study.budget}'"
    found = list(runs_where(client, experiment.experiment_id, where))
    if not found or any(run.data.tags.get(STUDY) == setup.key for run in found):
        return None
    last = max(found, key=_worked)
    theirs, mine = last.data.tags.get(BUNDLE, ""), f"{setup.bundle.card.name} {setup.bundle.hash}"
    if theirs in ("", mine) or state_of(last) == "complete":
        return None
    return (
        f"the study that was begun has bundle {theirs} and is not complete; with bundle {mine} this"
        " is another study, from its first trial on"
    )


def _worked(run: Run) -> float:
    return float(run.data.tags.get(WORKED, 0.0))
