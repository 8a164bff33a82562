"""What `--plan` shows, against sums by hand; its accuracy is measured in tests/benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.experiment.cost import RECORDING, Speed, make_plan
from ablate.experiment.prepare import Setup
from tests.support.commands import ablate
from tests.support.studies import changed, make_root

SPEED = Speed(batch=2.0, image=0.01, cell=0.5)
MEASURING = 40 * SPEED.image + SPEED.cell  # of 40 samples, one cell
NFE = 5  # of ADLS on 6 levels


def setup(folder: Path, bundle: Path, method: str, samples: str = "samples = 40") -> Setup:
    return changed(make_root(folder, bundle, method, trials=9), ("samples = 40", samples))


@pytest.mark.parametrize("method", ["grid", "random", "qmc", "tpe", "gp", "cmaes"])
def test_a_plan_is_the_sum_of_its_cells(method: str, tiny_bundle: Path, tmp_path: Path) -> None:
    """9 trials of 2 seeds, 40 samples in one batch, and two baselines by seed."""
    plan = make_plan(setup(tmp_path, tiny_bundle, method), SPEED)
    assert (plan.trials, plan.cells, plan.evaluations) == (9, 18, 9 * 2 * 40 * NFE)
    drawing, measuring = 18 * NFE * SPEED.batch, 18 * (MEASURING + RECORDING) + 4 * MEASURING
    assert plan.seconds == pytest.approx(drawing + measuring, rel=1e-12)
    assert plan.least == plan.seconds
    assert plan.exact == (method in ("grid", "random", "qmc"))


def test_rungs_give_a_range(tiny_bundle: Path, tmp_path: Path) -> None:
    """At best all but the first trial are pruned after one of their 4 batches: 2 seeds of 2."""
    rungs = "samples = 256\nrungs = [128]"
    plan = make_plan(setup(tmp_path, tiny_bundle, "grid", rungs), SPEED)
    assert plan.evaluations == 9 * 2 * 256 * NFE
    assert plan.least == pytest.approx(plan.seconds / 9 * (1 + 8 / 4), rel=1e-12)


def test_a_plan_runs_nothing_and_shows_limits(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=9, databases=False)
    limits = ("--minutes", "5", "--evaluations", "2000")
    shown = ablate(root, "study", "tiny", "--plan", *limits).stdout
    assert "18 (9 trials)" in shown
    assert "3,600 of single images" in shown
    assert "5 minutes or 2,000 evaluations" in shown
    assert {path.name for path in root.iterdir()} == {"studies", "tiny.safetensors"}
