"""Settings: which knobs go together, and what is spent."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from ablate.generate.applicability import listens
from ablate.generate.plans import make_kernel, make_plan
from ablate.generate.presets import with_knobs
from ablate.generate.settings import Settings
from ablate.samplers.drive import drive
from ablate.samplers.registry import SAMPLERS
from tests.samplers.runs import elementwise
from tests.support.beds import normal


def settings(**knobs: Any) -> Settings:
    return Settings.model_validate(
        {"sampler": "adls", "init": "class-average", "sigma": 0.8} | knobs
    )


def refusal(**knobs: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        settings(**knobs)
    return str(caught.value)


@pytest.mark.parametrize("name", [name for name, sampler in SAMPLERS.items() if sampler.law])
@pytest.mark.parametrize("grid", ["geometric", "karras", "uniform"])
@pytest.mark.parametrize(("L", "n"), [(1, 0), (6, 0), (6, 25)])
@pytest.mark.parametrize(
    "noise", [{}, {"sigma": None, "schedule": "ve", "sigma_min": 0.2, "sigma_max": 1.5}]
)
def test_levels_are_the_evaluations_of_an_exponential_run(
    name: str, grid: str, L: int, n: int, noise: dict[str, Any]
) -> None:
    chosen = settings(
        sampler=name, integrator="exponential", levels=12, grid=grid, L=L, n=n, chi=0.999, **noise
    )
    start, z = normal((4, 3), 1), normal((4, 3), 2)
    drawn = drive(make_kernel(chosen), elementwise, start, make_plan(chosen), lambda j: z)
    assert drawn.evaluations == chosen.nfe == 12
    assert bool(drawn.x.isfinite().all())


def test_an_exponential_run_begins_and_ends_where_the_literal_run_does() -> None:
    literal = settings(integrator="literal", N=1000)
    short = settings(integrator="exponential", levels=12)
    assert short.noise_range() == literal.noise_range()
    long, few = make_plan(literal), make_plan(short)
    assert (few[0].s, few[-1].s) == pytest.approx((long[0].s, long[-1].s), rel=1e-12)
    assert (len(long), len(few)) == (999, 12)


def test_a_literal_run_on_n_levels_is_the_paper_s_grid() -> None:
    by_n = settings(integrator="literal", N=50, chi=0.995, r=0.6)
    by_grid = settings(grid="uniform", levels=50, chi=0.995, r=0.6)
    assert make_plan(by_n) == make_plan(by_grid)
    assert by_n.nfe == by_grid.nfe == 49
    assert by_n.knobs()["delta"] == by_grid.knobs()["delta"] == 0.6 / 50
    assert "levels" not in by_n.knobs()


def test_delta_is_a_step_of_the_paper_s_grid() -> None:
    """Off that grid it used to mean L·delta·levels: r = 0.02 for the paper's delta."""
    assert settings(integrator="exponential", delta=5.86e-4).relative_step == pytest.approx(0.586)
    assert settings(grid="uniform", levels=1000, delta=5.86e-4).relative_step == pytest.approx(
        0.586
    )
    assert "give r = L delta N" in refusal(delta=5.86e-4, levels=34)
    assert "delta" not in settings(r=0.6, levels=34).knobs()


def test_kappa_consistent_samplers_have_no_relative_step() -> None:
    """They have the right law with r = 1, and the wrong one with any other."""
    for name in ("adls-consistent", "asams-consistent"):
        for knob in ("r", "delta"):
            assert f"{knob} = 0.7 has no meaning" in refusal(sampler=name, **{knob: 0.7})
        assert "r" not in settings(sampler=name, chi=0.995).knobs()


def test_r_by_the_law_is_set_level_by_level() -> None:
    by_law = make_plan(settings(grid="uniform", levels=200, chi=0.995, r="law"))
    whole = make_plan(settings(grid="uniform", levels=200, chi=0.995, r=1.0))
    kappa = torch.tensor([step.kappa for step in by_law], dtype=torch.float64)
    ratio = [a.variance / b.variance for a, b in zip(by_law, whole, strict=True)]
    torch.testing.assert_close(kappa.new_tensor(ratio), 1 / (2 - kappa**2))
    assert (ratio[0], ratio[-1]) == pytest.approx((1, 0.5), abs=1e-3)
    knobs = settings(chi=0.995, r="law").knobs()
    assert knobs["r"] == "law"
    assert "delta" not in knobs
    assert "r" in refusal(r="lore")


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"sampler": "pf-heun", "integrator": "exponential"}, "integrator = exponential has no"),
        ({"integrator": "literal", "order": 2}, "order = 2 has no meaning"),
        ({"N": 1000}, "N = 1000 has no meaning"),
        ({"integrator": "literal", "N": 1000, "levels": 12}, "levels = 12 has no meaning"),
        ({"integrator": "literal", "N": 1000, "grid": "karras"}, "grid = karras has no meaning"),
        ({"integrator": "exponential", "s_min": 0.01}, "s_min = 0.01 has no meaning"),
        ({"integrator": "exponential", "cap": 0.1}, "cap = 0.1 has no meaning"),
        ({"integrator": "exponential", "order": 3}, "order"),
        ({"integrator": "exponential", "levels": 60, "N": 50}, "levels = 60 exceeds N = 50"),
    ],
)
def test_knobs_that_do_not_go_together(knobs: dict[str, Any], words: str) -> None:
    assert words in refusal(**knobs)


# --- cost in place of levels ---


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("cost", [7, 8, 31])
def test_cost_is_spent_as_far_as_levels_allow(name: str, cost: int) -> None:
    """Another level would cost more."""
    chosen = settings(sampler=name, cost=cost, s_min=0.03)
    assert chosen.nfe <= cost
    assert settings(sampler=name, levels=chosen.levels + 1, s_min=0.03).nfe > cost
    assert Settings.model_validate(chosen.model_dump(exclude_none=True)) == chosen
    assert chosen.knobs()["cost"] == cost


def test_cost_of_an_exponential_run_is_its_levels() -> None:
    assert settings(integrator="exponential", cost=10, n=2, L=6).nfe == 10


def test_cost_must_be_enough_and_agree_with_levels() -> None:
    assert "cost = 2: pf-heun needs 3 at least" in refusal(sampler="pf-heun", cost=2)
    assert "levels = 9 and cost = 4: give one" in refusal(sampler="pf-euler", cost=4, levels=9)
    assert "cost" in refusal(sampler="pf-euler", cost=0)
    assert "has no meaning" in refusal(integrator="literal", N=1000, cost=12)


def test_cost_takes_the_place_of_the_preset_s_levels() -> None:
    chosen = with_knobs((0.002, 3.0), {"sampler": "dpm++2m", "cost": 7})
    assert (chosen.levels, chosen.nfe) == (8, 7)


def test_an_integrator_for_all_leaves_other_samplers_alone() -> None:
    """A study may fix `integrator` and `N` beside samplers that have none."""
    chosen = {"sampler": "pf-heun", "integrator": "literal", "N": 1000}
    assert listens("cost", chosen)
    assert not listens("N", chosen)
    assert not listens("cost", chosen | {"sampler": "adls"})
