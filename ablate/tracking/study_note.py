"""The text at the top of a study's run in the MLflow UI: the question, links to what matters."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from ablate.core.workspace import Workspace
from ablate.results import StudyResults
from ablate.tracking.client import TROUBLES
from ablate.tracking.writer import Tracker

NOTE = "mlflow.note.content"
REPORT = "report.html"
"""Artifact of a study: the page that `ablate report` wrote last."""

BEST = "Best in the search: "
"""Start of a line of a note, before its link."""


def run_path(experiment: str, run_id: str, artifact: str = "") -> str:
    """The address of a run, or of one of its artifacts, within the UI."""
    return f"#/experiments/{experiment}/runs/{run_id}" + (artifact and f"/artifacts/{artifact}")


def note(text: str, line: str) -> str:
    """A note with a line added, or changed if it has one that begins with the same words."""
    start = line.partition("[")[0]
    kept = [each for each in text.split("\n\n") if not each.startswith(start)]
    return "\n\n".join([*kept, line])


def attach_report(workspace: Workspace, record: StudyResults, page: Path) -> None:
    """Put a report beside the study in the record, with a link to it. A record that cannot be
    written to does not spoil the report."""
    with suppress(*TROUBLES), tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copy(page, Path(scratch, REPORT)))
        tracker = Tracker(workspace)
        tracker.client.log_artifact(record.run_id, str(copy))
        run = tracker.client.get_run(record.run_id)
        path = run_path(run.info.experiment_id, record.run_id, REPORT)
        text = note(run.data.tags.get(NOTE, record.question), f"Report: [{REPORT}]({path})")
        tracker.log(record.run_id, tags={NOTE: text})
