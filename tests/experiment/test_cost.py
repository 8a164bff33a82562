"""What `--plan` shows, against sums by hand; its accuracy is measured in tests/benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.experiment.cost import RECORDING, Plan, Speed, make_plan
from ablate.experiment.prepare import Setup
from ablate.study.definition import Confirm
from tests.support.commands import ablate
from tests.support.studies import changed, make_root

SPEED = Speed(batch=2.0, image=0.01, cell=0.5)
MEASURING = 40 * SPEED.image + SPEED.cell  # of 40 samples, one cell
NFE = 5  # of ADLS on 6 levels


def setup(folder: Path, bundle: Path, method: str, samples: str = "samples = 40") -> Setup:
    return changed(make_root(folder, bundle, method, trials=9), ("samples = 40", samples))


@pytest.mark.parametrize("method", ["grid", "random", "qmc", "tpe", "law", "gp", "cmaes"])
def test_a_plan_is_the_sum_of_its_cells(method: str, tiny_bundle: Path, tmp_path: Path) -> None:
    """9 trials of 2 seeds, 40 samples in one batch, and two baselines by seed."""
    plan = make_plan(setup(tmp_path, tiny_bundle, method), SPEED)
    assert (plan.trials, plan.cells, plan.evaluations) == (9, 18, 9 * 2 * 40 * NFE)
    drawing, measuring = 18 * NFE * SPEED.batch, 18 * (MEASURING + RECORDING) + 4 * MEASURING
    assert plan.seconds == pytest.approx(drawing + measuring, rel=1e-12)
    assert plan.least == plan.seconds
    assert plan.exact == (method in ("grid", "random", "qmc"))


def test_rungs_give_a_range(tiny_bundle: Path, tmp_path: Path) -> None:
    """At best two thirds of the trials are pruned after a quarter of their 8 batches."""
    rungs = "samples = 256\nrungs = [128]"
    plan = make_plan(setup(tmp_path, tiny_bundle, "grid", rungs), SPEED)
    assert plan.evaluations == 9 * 2 * 256 * NFE
    baselines = 4 * (256 * SPEED.image + SPEED.cell)
    search = plan.seconds - baselines
    assert plan.least - baselines == pytest.approx(search * (1 / 3 + 2 / 3 / 4), rel=1e-12)


def test_confirmations_are_part_of_the_cost(tiny_bundle: Path, tmp_path: Path) -> None:
    """9 trials confirm 2 of the best, with 2 seeds of 80 samples each."""
    made = setup(tmp_path, tiny_bundle, "grid", "confirm = { top = 3, samples = 80 }\nsamples = 40")
    plan, without = make_plan(made, SPEED), _without_confirmation(made)
    assert (plan.confirmations, plan.cells) == (2, 18 + 4)
    assert plan.evaluations == without.evaluations + 4 * 80 * NFE
    each = 2 * NFE * SPEED.batch + 80 * SPEED.image + SPEED.cell + RECORDING  # two batches of 64
    assert plan.seconds == pytest.approx(without.seconds + 4 * each, rel=1e-12)


def _without_confirmation(made: Setup) -> Plan:
    off = made.study.model_copy(update={"confirm": Confirm(top=0)})
    return make_plan(made._replace(study=off), SPEED)


def test_a_plan_runs_nothing_and_shows_limits(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=9, databases=False)
    limits = ("--minutes", "5", "--evaluations", "2000")
    shown = ablate(root, "study", "tiny", "--plan", *limits).stdout
    assert "18 (9 trials)" in shown
    assert "3,600 of single images" in shown
    assert "5 minutes or 2,000 evaluations" in shown
    assert {path.name for path in root.iterdir()} == {"studies", "tiny.safetensors"}
