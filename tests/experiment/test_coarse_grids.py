"""Grids too coarse for literal steps: in the plan, in the record and in what is read from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.workspace import Workspace
from ablate.experiment.coarse_grids import coarse_grids
from ablate.experiment.worker import run
from ablate.generate.coarseness import coarseness
from ablate.report import render
from tests.support.commands import ablate
from tests.support.records import no_pictures
from tests.support.studies import Quiet, changed, make_root, record_of, results, runs, setup_of

HALF_LITERAL = (
    "levels = 6\n[search]",
    'levels = 6\n[search]\nintegrator = ["literal", "exponential"]',
)


def test_a_warning_counts_and_names_the_worst(tiny_bundle: Path, tmp_path: Path) -> None:
    """All nine of the grid are ADLS on 6 levels; the worst has the longest steps."""
    study = setup_of(make_root(tmp_path, tiny_bundle, trials=9)).study
    warning = coarse_grids(study)
    assert warning is not None
    assert warning.startswith("9 of 9 literal configurations have a grid too coarse")
    ratios = {
        r: each.ratio
        for r in (0.5, 0.75, 1.0)
        if (each := coarseness(study.settings({"init": "gaussian", "r": r}))) is not None
    }
    worst = max(ratios, key=lambda r: ratios[r])
    assert f"worst: {ratios[worst]:.3g} at s = " in warning
    assert f"levels = 6, sigma = 0.8, r = {worst}" in warning
    assert 'integrator = "exponential" or more levels' in warning
    assert "\n" not in warning


def test_only_configurations_that_will_run_are_counted(tiny_bundle: Path, tmp_path: Path) -> None:
    study = setup_of(make_root(tmp_path, tiny_bundle, trials=4)).study
    assert (coarse_grids(study) or "").startswith("4 of 4 ")


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_a_search_is_checked_at_its_corners(method: str, tiny_bundle: Path, tmp_path: Path) -> None:
    study = setup_of(make_root(tmp_path, tiny_bundle, method)).study
    assert "6 of 6 literal configurations that were checked" in (coarse_grids(study) or "")


def test_exponential_configurations_are_not_counted(tiny_bundle: Path, tmp_path: Path) -> None:
    study = changed(make_root(tmp_path, tiny_bundle, trials=18), HALF_LITERAL).study
    assert (coarse_grids(study) or "").startswith("9 of 9 literal")
    fixed = study.model_copy(update={"fixed": {**study.fixed, "integrator": "exponential"}})
    search = {knob: each for knob, each in study.search.items() if knob != "integrator"}
    assert coarse_grids(fixed.model_copy(update={"search": search})) is None


def test_a_plan_prints_the_warning_as_one_line(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, databases=False)
    lines = ablate(root, "study", "tiny", "--plan").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("warning: ")]
    assert line.endswith('use integrator = "exponential" or more levels')


def test_the_record_and_its_readers_have_it(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=18)
    setup = changed(root, HALF_LITERAL, ("trials = 18", "trials = 2"), ("[0, 1]", "[0]"))
    setup = setup._replace(study=setup.study.model_copy(update={"trials": 2}))
    pairs = [
        {"init": "gaussian", "integrator": each, "r": 1.0} for each in ("literal", "exponential")
    ]
    setup = setup._replace(study=setup.study.model_copy(update={"first": tuple(pairs)}))
    run(setup, Workspace(root), Quiet())

    literal, exponential = record_of(Workspace(root)).trials
    assert literal.coarseness == coarseness(setup.study.settings(pairs[0]))
    assert literal.too_coarse
    assert exponential.coarseness is None

    rows = results(root)
    assert [row["too_coarse"] for row in rows] == [True, False]
    assert literal.coarseness is not None
    assert [row["noise_ratio"] for row in rows] == [literal.coarseness.ratio, None]
    metrics = {
        each.data.tags["ablate.trial"]: each.data.metrics.get("noise_ratio")
        for each in runs(root)
        if each.data.tags["ablate.kind"] == "trial"
    }
    assert metrics == {"0": literal.coarseness.ratio, "1": None}
    (of_study,) = [each for each in runs(root) if each.data.tags["ablate.kind"] == "study"]
    assert of_study.data.tags["ablate.warning"] == coarse_grids(setup.study)
    shown = ablate(root, "results", "tiny").stdout
    assert "warning: the grid is too coarse for the literal steps of trial 0:" in shown
    _older_records_are_read(root)


def _older_records_are_read(root: Path) -> None:
    """Without the tags there is no ratio and no warning, but a report."""
    client = MlflowClient(Workspace(root).tracking_uri)
    for each in runs(root):
        for tag in {"ablate.coarseness", "ablate.warning"} & each.data.tags.keys():
            client.delete_tag(each.info.run_id, tag)
    record = record_of(Workspace(root))
    assert [trial.coarseness for trial in record.trials] == [None, None]
    assert json.dumps(results(root)[0]["noise_ratio"]) == "null"
    page = render.write(record, no_pictures, root / "reports" / "tiny").read_text(encoding="utf-8")
    assert "too coarse" not in page
