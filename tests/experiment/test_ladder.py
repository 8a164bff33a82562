"""The effects of a ladder's steps: against closed forms, and from a study that was run."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from ablate.core.workspace import Workspace
from ablate.experiment import cell_attempts
from ablate.experiment.cell import CellResult, run_cell
from ablate.experiment.early_stopping import difference
from ablate.experiment.ladder import ladder_document
from ablate.experiment.prepare import Setup, prepare
from ablate.experiment.rivals import Rivals
from ablate.experiment.worker import run
from ablate.metrics.estimate import Measured, mean_of
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import Reference
from ablate.metrics.registry import METRICS, Metric
from ablate.search import Entry, Ledger
from ablate.study.definition import Study
from ablate.study.find import find, read
from ablate.study.ladder import Taken, ladder, row_of
from ablate.study.resolve import parse
from ablate.tracking.studies import find_study
from ablate.tracking.writer import Tracker
from tests.support.beds import normal
from tests.support.studies import Quiet, make_root, record_of, results, timeless

WIDTH, COUNT = 4, 64
PROTOCOL = Protocol("tiny", "0", "none", True, "tiny/train", "0", 400, COUNT)

TEXT = """
question = "?"
bundle = "{bundle}"
method = "ladder"
seeds = [3, 5]
confirm = false
base = {{ sampler = "adls", init = "class-average", chi = 0.995, r = 0.6, n = 0 }}
steps = [
  {{ name = "a", r = "law" }},
  {{ name = "b", n = 2 }},
  {{ name = "c", init = "gaussian" }},{more}
]
[fixed]
sigma = 0.8
levels = 10
[budgets.quick]
samples = 64
"""
FLOW = '{ name = "flow", sampler = "pf-euler" },'


def first_feature(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    return {"first": mean_of(samples[:, 0])}


@pytest.fixture
def mean_metric() -> Iterator[None]:
    """The metric `first`, the mean of the first feature: effects on it add up."""
    METRICS.add(Metric("first", "First", "minimize", first_feature, prunes=True))
    yield
    METRICS.remove("first")


def study(metric: str = "kid", more: str = "") -> Study:
    text = TEXT.format(bundle="digits", more=more)
    return parse(f'objectives = [{{ metric = "{metric}" }}]\n{text}', "s", "quick")


def setup_for(spec: Study) -> Setup:
    """What effects are measured with: the study and real images."""
    reference = Reference(normal((400, WIDTH), 1), PROTOCOL)
    return cast(Setup, SimpleNamespace(study=spec, reference=reference))


def entries_of(spec: Study) -> list[Entry]:
    return [Entry(n, dict(row), "complete", (0.0,)) for n, row in enumerate(spec.rows)]


def features_of(
    spec: Study, effect: Callable[[Taken], float], jitter: float = 0.1, salt: int = 0
) -> Callable[[int, int], Tensor]:
    """Features of which the first is shifted by `effect`; noise of a seed is shared by all trials,
    but for a little of each trial's own."""
    taken = {
        number: each
        for each in reversed(ladder(len(spec.steps)).distinct())
        for number, row in enumerate(spec.rows)
        if row_of(spec, each) == row
    }

    def features(number: int, seed: int) -> Tensor:
        shared = normal((COUNT, WIDTH), 1000 * salt + seed)
        own = normal((COUNT, WIDTH), 1000 * salt + 100 + 10 * number + seed)
        shift = torch.tensor([effect(taken[number])] + [0.0] * (WIDTH - 1), dtype=torch.float64)
        return shared + shift + jitter * own

    return features


SHIFTS = (-0.5, 0.2, -0.1)
"""Effects of the three steps, where they add up."""


def added(taken: Taken) -> float:
    return sum(SHIFTS[step] for step in taken)


def document(
    spec: Study, features: Callable[[int, int], Tensor], entries: list[Entry] | None = None
) -> dict[str, Any]:
    found = ladder_document(setup_for(spec), features, entries or entries_of(spec))
    assert found is not None
    assert json.loads(json.dumps(found)) == found
    return found


def near(found: Mapping[str, float], expected: float, error: float) -> bool:
    """Within 4 standard errors of the closed form, with that standard error: of 2 · 64 samples its
    estimate has a relative standard deviation of 1/√256, and 4 of these are a quarter."""
    low, high = found["value"] - 1.96 * found["error"], found["value"] + 1.96 * found["error"]
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=1e-4)
    return abs(found["value"] - expected) < 4 * error and abs(found["error"] / error - 1) < 0.25


@pytest.mark.usefixtures("mean_metric")
def test_effects_that_add_up_are_found_without_an_interaction() -> None:
    """Two trials differ by their own noise alone, √2 · 0.1 a sample; four by √4 · 0.1."""
    spec = study("first")
    found = document(spec, features_of(spec, added))
    two, four = math.sqrt(2 / 128) * 0.1, math.sqrt(4 / 128) * 0.1
    assert found["metrics"] == ["first", "fid"]
    assert [rung["name"] for rung in found["cumulative"]] == ["base", "a", "b", "c"]
    assert found["cumulative"][0]["change"] is None
    for step, shift in enumerate(SHIFTS):
        effects = found["steps"][step]
        assert near(found["cumulative"][step + 1]["change"]["first"], shift, two)
        assert near(effects["add_one"]["first"], shift, two)
        assert near(effects["leave_one_out"]["first"], shift, two)
        assert near(effects["interaction"]["first"], 0.0, four)
        assert effects["add_one"]["first"]["excludes_zero"]
        assert math.isfinite(effects["interaction"]["fid"]["error"])
        assert not effects["add_one_is_base"]
        assert not effects["leave_one_out_is_top"]
    assert found["left_out"] == []


@pytest.mark.usefixtures("mean_metric")
def test_no_interaction_is_found_where_there_is_none() -> None:
    """Of 3 · 60 intervals around zero one in twenty excludes it: 9 ± 2.9, fewer than 9 + 4 · 2.9.
    The three of a ladder share trials, so their number varies up to √3 times as much."""
    spec = study("first")
    ladders = [document(spec, features_of(spec, added, salt=salt)) for salt in range(60)]
    excluded = sum(
        step["interaction"]["first"]["excludes_zero"] for each in ladders for step in each["steps"]
    )
    assert excluded < 9 + 4 * 2.9 * math.sqrt(3)


@pytest.mark.usefixtures("mean_metric")
def test_an_interaction_is_found() -> None:
    """Steps a and b together lose 0.3 more than alone: beside the other, each has 0.3 less."""
    spec = study("first")
    found = document(spec, features_of(spec, lambda t: added(t) - 0.3 * (0 in t and 1 in t)))
    four = math.sqrt(4 / 128) * 0.1
    interactions = [step["interaction"]["first"] for step in found["steps"]]
    for interaction, expected in zip(interactions, (-0.3, -0.3, 0.0), strict=True):
        assert near(interaction, expected, four)
    assert [i["excludes_zero"] for i in interactions[:2]] == [True, True]


def test_changes_of_kid_are_those_of_pruning() -> None:
    spec = study()
    features = features_of(spec, lambda t: 3 * added(t))
    found, setup = document(spec, features), setup_for(spec)
    sides = [{seed: features(n, seed) for seed in spec.seeds} for n in (1, 0)]
    expected = difference(sides[0], sides[1], "kid", setup.reference)
    change = found["cumulative"][1]["change"]["kid"]
    assert (change["value"], change["error"]) == pytest.approx(tuple(expected))
    assert found["steps"][0]["add_one"]["kid"] == change  # the same two trials


def test_a_step_that_the_top_does_not_use_has_no_effect_there() -> None:
    """After the flow, r and n mean nothing: leaving them out is the top, and exactly so."""
    spec = study(more=FLOW)
    found = document(spec, features_of(spec, lambda t: float(len(t))))
    unused = found["steps"][0]
    assert [step["leave_one_out_is_top"] for step in found["steps"]] == [True, True, False, False]
    zero = {"value": 0.0, "error": 0.0, "low": 0.0, "high": 0.0, "excludes_zero": False}
    assert unused["leave_one_out"]["kid"] == zero
    assert unused["interaction"]["kid"]["value"] == -unused["add_one"]["kid"]["value"]
    assert unused["interaction"]["kid"]["error"] == unused["add_one"]["kid"]["error"]


def test_with_one_step_there_is_nothing_to_interact_with() -> None:
    text = TEXT.format(bundle="digits", more="")
    lines = [line for line in text.splitlines() if '"b"' not in line and '"c"' not in line]
    spec = parse("\n".join(lines), "s", "quick")
    (only,) = document(spec, features_of(spec, lambda t: float(len(t))))["steps"]
    assert only["add_one"] == only["leave_one_out"]
    assert (only["interaction"]["kid"]["value"], only["interaction"]["kid"]["error"]) == (0.0, 0.0)


def test_what_has_no_result_is_left_out_with_a_word() -> None:
    spec = study()
    entries = entries_of(spec)[:-1]  # the last one, all but b, is not run
    entries[2] = entries[2]._replace(state="pruned")  # a and b
    entries[4] = entries[4]._replace(state="failed")  # b alone
    found = document(spec, features_of(spec, added), entries)
    assert found["left_out"] == [
        {"configuration": "the base and the steps up to 'b'", "reason": "diverged"},
        {"configuration": "the base and step 'b' alone", "reason": "failed"},
        {"configuration": "all steps but 'b'", "reason": "not run"},
    ]
    assert [rung["trial"] for rung in found["cumulative"]] == [0, 1, None, 3]
    assert [rung["change"] is None for rung in found["cumulative"]] == [True, False, True, True]
    a, b, c = found["steps"]
    assert a["interaction"] is not None
    assert b["add_one"] is b["leave_one_out"] is b["interaction"] is None
    assert c["add_one"] is not None
    assert c["leave_one_out"] is c["interaction"] is None


def test_an_objective_that_is_not_measured_on_images_leaves_kid() -> None:
    spec = study("nfe")
    assert document(spec, features_of(spec, added))["metrics"] == ["kid", "fid"]


def test_costs_are_those_of_the_run_and_of_what_it_stands_for() -> None:
    text = TEXT.format(bundle="digits", more=FLOW).replace("levels = 10", "levels = 10\nN = 1000")
    text = text.replace("N = 1000", 'N = 1000\nintegrator = "exponential"')
    spec = parse(text, "s", "quick")
    rungs = document(spec, features_of(spec, lambda t: float(len(t))))["cumulative"]
    assert [rung["nfe"] for rung in rungs] == [10, 10, 10, 10, 9]
    assert [rung["literal_nfe"] for rung in rungs] == [999, 999, 1001, 1001, 9]


def test_other_methods_have_none() -> None:
    spec = study().model_copy(update={"method": "grid"})
    assert ladder_document(setup_for(spec), features_of(spec, added), []) is None


# --- studies that are run -------------------------------------------------------------------------


def of_record(setup: Setup, workspace: Workspace) -> dict[str, Any]:
    """The document of a study in the record."""
    record = find_study(Tracker(workspace), setup.study.name, setup.key)
    assert record is not None
    entries = Ledger(workspace.search_url, setup.key, setup.study).entries()
    found = ladder_document(setup, Rivals(setup, record).features, entries)
    assert found is not None
    return found


def ladder_root(folder: Path, bundle: Path) -> Setup:
    """The study `tiny` as a ladder."""
    root = make_root(folder, bundle)
    text = TEXT.format(bundle="tiny.safetensors", more=FLOW)
    (root / "studies" / "tiny.toml").write_text(text)
    workspace = Workspace(root)
    return prepare(read(find(workspace, "tiny"), "quick"), workspace)


def test_a_ladder_that_is_stopped_goes_on(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the fifth cell its process dies; then another one runs the rest. Trials and effects have
    the same bits as those of a study that was never stopped."""

    class Killed(BaseException):
        pass

    left = iter(range(4))

    def dies(*arguments: Any) -> CellResult:
        if next(left, None) is None:
            raise Killed
        return run_cell(*arguments)

    whole = ladder_root(tmp_path / "whole", tiny_bundle)
    run(whole, Workspace(tmp_path / "whole"), Quiet())
    stopped = ladder_root(tmp_path / "stopped", tiny_bundle)
    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(cell_attempts, "run_cell", dies)
        run(stopped, Workspace(tmp_path / "stopped"), Quiet())
    assert len(results(tmp_path / "stopped")) < 8
    run(stopped, Workspace(tmp_path / "stopped"), Quiet())
    assert timeless(results(tmp_path / "stopped")) == timeless(results(tmp_path / "whole"))
    effects = of_record(whole, Workspace(tmp_path / "whole"))
    assert of_record(stopped, Workspace(tmp_path / "stopped")) == effects
    assert len(results(tmp_path / "whole")) == 8


def test_the_ladder_of_digits(tmp_path: Path) -> None:
    """The shipped study at `smoke`: every configuration once, and what it says of the steps."""
    workspace = Workspace(tmp_path)
    setup = prepare(read(find(workspace, "digits-ladder"), "smoke"), workspace)
    outcome = run(setup, workspace, Quiet())
    assert outcome.failures == []
    assert outcome.ran == setup.study.trials == 10
    record = record_of(workspace, "digits-ladder")
    assert [trial.state for trial in record.trials] == ["complete"] * 10
    assert len({json.dumps(trial.params) for trial in record.trials}) == 10
    found = of_record(setup, workspace)
    assert [rung["trial"] for rung in found["cumulative"]] == [0, 1, 2, 3, 4, 5]
    assert found["left_out"] == []
    for before, rung in zip(found["cumulative"], found["cumulative"][1:], strict=False):
        kids = [record.trials[each["trial"]].metrics["kid"] for each in (rung, before)]
        # features are stored in half precision, with a relative error of 2⁻¹¹
        size = max(abs(kid) for kid in kids)
        assert rung["change"]["kid"]["value"] == pytest.approx(kids[0] - kids[1], abs=0.02 * size)
    unused = [step["leave_one_out_is_top"] for step in found["steps"]]
    assert unused == [True, True, False, True, False]
    assert record.ladder == found
