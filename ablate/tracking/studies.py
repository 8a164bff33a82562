"""Opening the run of a study in the record, or finding it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablate.results import STUDY as SPEC
from ablate.tracking.client import runs_where
from ablate.tracking.inputs import InputLog, Inputs
from ablate.tracking.run_names import varied
from ablate.tracking.study_run import StudyRun, now
from ablate.tracking.vocabulary import KIND, STUDY, VERSION, WORKED, Knobs, Tags
from ablate.tracking.writer import Tracker


def open_study(
    tracker: Tracker,
    name: str,
    key: str,
    tags: Tags,
    documents: Mapping[str, Any],
    params: Knobs,
    inputs: Inputs,
) -> StudyRun:
    """The study's run, created or reopened; `documents` become JSON artifacts."""
    found = find_study(tracker, name, key)
    experiment = tracker.experiment(name)
    tags = {**tags, KIND: "study", STUDY: key, WORKED: now()}
    if found is None:
        run_id = str(tracker.client.create_run(experiment, tags=tags, run_name=key).info.run_id)
    else:
        run_id = found.run_id
        known = tracker.client.get_run(run_id).data.tags  # of the versions that it began with
        new = {k: v for k, v in tags.items() if not k.startswith(VERSION) or k not in known}
        tracker.reopen(run_id, new)
    tracker.log(run_id, params=params)
    log = InputLog(tracker.client, experiment, inputs)
    log.write(run_id)
    study = StudyRun(tracker, experiment, run_id, key, varied(documents[SPEC]), log)
    for file, document in documents.items():
        study.log_document(file, document)
    return study


def find_study(tracker: Tracker, name: str, key: str) -> StudyRun | None:
    """The study's run, or None if there is none."""
    experiment = tracker.client.get_experiment_by_name(name)
    if experiment is None:
        return None
    where = f"tags.`{STUDY}` = '{key}' and tags.`{KIND}` = 'study'"
    runs = runs_where(tracker.client, experiment.experiment_id, where)
    studies = (StudyRun(tracker, experiment.experiment_id, run.info.run_id, key) for run in runs)
    return next(studies, None)
