"""Prepared views of studies in the MLflow UI: which runs, in which order, with which columns.

The UI keeps the state of a view that is shared in a tag of the experiment, and its address names
the tag. The address also says that the experiment is one of model training: without it, the UI
opens pages for language models. A test opens the views in a browser, because neither is part of
MLflow's interface.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from ablate.core.workspace import Workspace
from ablate.results import STUDY as SPEC
from ablate.tracking.client import Run, runs_where
from ablate.tracking.reader import Reader
from ablate.tracking.run_names import BARE, varied
from ablate.tracking.vocabulary import CONFIRMS, KIND, STATE, STUDY, WORKED
from ablate.tracking.writer import KIND_OF_EXPERIMENT, Tracker

SHARED = "mlflow.sharedViewState."
"""Prefix of the tag of an experiment that holds a view's state."""

MODEL_TRAINING = "workflowType=machine_learning"
SECTION = "ablate"


class View(NamedTuple):
    """A page of the UI, by its address within it."""

    name: str
    about: str  # of a study: its budget
    path: str


def prepare_views(workspace: Workspace) -> list[View]:
    """A page for each study and budget, with its view, and for every other experiment; the one
    last worked on comes first."""
    tracker, reader = Tracker(workspace), Reader(workspace)
    views: list[tuple[float, View]] = []
    for experiment in tracker.client.search_experiments():
        if experiment.name == "Default":
            continue
        for key, value in KIND_OF_EXPERIMENT.items():
            if experiment.tags.get(key) != value:  # made by hand, or by another program
                tracker.client.set_experiment_tag(experiment.experiment_id, key, value)
        path = f"#/experiments/{experiment.experiment_id}/runs?{MODEL_TRAINING}"
        where = f"tags.`{KIND}` = 'study'"
        studies = _latest(runs_where(tracker.client, experiment.experiment_id, where))
        for budget, run in studies.items():
            try:
                spec = json.loads(reader.fetch(run.info.run_id, SPEC).read_text())
            except (FileNotFoundError, json.JSONDecodeError):  # killed before it was written
                continue
            tag, state = SHARED + budget, view_state(spec, run.data.tags[STUDY])
            if experiment.tags.get(tag) != state:
                tracker.client.set_experiment_tag(experiment.experiment_id, tag, state)
            view = View(experiment.name, budget, f"{path}&viewStateShareKey={budget}")
            views.append((float(run.data.tags[WORKED]), view))
        if not studies:
            views.append((0.0, View(experiment.name, "", path)))
    return [view for _, view in sorted(views, key=lambda each: -each[0])]


def _latest(runs: Any) -> dict[str, Run]:
    """The study's run that was last worked on, by budget."""
    by_time = sorted(runs, key=lambda run: float(run.data.tags[WORKED]))
    return {run.data.tags["ablate.budget"]: run for run in by_time}


def view_state(spec: Mapping[str, Any], key: str) -> str:
    """The view of a study: its trials, best first, with the knobs that vary and what matters of the
    result; as charts, how the knobs move the objective, and the first samples of each trial."""
    knobs, goal = varied(spec), spec["objectives"][0]
    metrics = dict.fromkeys((*(each["metric"] for each in spec["objectives"]), "kid", "fid", "nfe"))
    again = [CONFIRMS] if spec.get("confirm", {}).get("top") else []
    state = {
        "searchFilter": f"tags.`{KIND}` = 'trial' and tags.`{STUDY}` = '{key}'",
        "orderByKey": f"metrics.`{goal['metric']}`",
        "orderByAsc": goal["direction"] == "minimize",
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": [
            *(f"params.`{knob}`" for knob in knobs),
            *(f"metrics.`{metric}`" for metric in metrics),
            *(f"tags.`{tag}`" for tag in (STATE, *again)),
        ],
        "columnWidths": {"attributes.`Run Name`": 300},  # in pixels
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": True,
        "compareRunCharts": _charts(knobs, goal["metric"]),
        "compareRunSections": [{"uuid": SECTION, "name": "", "display": True, "isReordered": True}],
    }
    return packed(json.dumps(EMPTY | state))


def packed(text: str) -> str:
    """Text as the UI compresses it, because a tag has at most 5,000 characters."""
    return "deflate;" + base64.b64encode(zlib.compress(text.encode())).decode()


EMPTY: dict[str, Any] = {
    "columnOrder": [],
    "runsExpanded": {},
    "runsPinned": [],
    "runsHidden": [],
    "runsVisibilityMap": {},
    "viewMaximized": False,
    "runListHidden": False,
    "isAccordionReordered": False,
    "useGroupedValuesInCharts": True,
    "groupBy": None,
    "groupsExpanded": {},
    "autoRefreshEnabled": True,
}
"""What the UI expects of a view beside what ours decides."""


def _charts(knobs: tuple[str, ...], goal: str) -> list[dict[str, Any]]:
    """Parallel coordinates, a contour plot over the first two numbers, bars, and samples."""
    charts: list[dict[str, Any]] = [
        {"type": "BAR", "metricKey": goal, "runsCountToCompare": 20},
        {"type": "IMAGE", "imageKeys": ["first-samples"], "step": 0},
    ]
    if knobs:
        charts.insert(0, {"type": "PARALLEL", "selectedParams": knobs, "selectedMetrics": [goal]})
    numbers = [{"key": knob, "type": "PARAM"} for knob in knobs if knob not in BARE]
    if len(numbers) > 1:
        axes = {"xaxis": numbers[0], "yaxis": numbers[1], "zaxis": {"key": goal, "type": "METRIC"}}
        charts.insert(1, {"type": "CONTOUR", **axes})
    card = {"deleted": False, "isGenerated": False, "metricSectionId": SECTION}
    return [card | chart | {"uuid": f"{SECTION}-{chart['type'].lower()}"} for chart in charts]
