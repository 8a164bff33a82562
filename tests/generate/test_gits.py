"""Grids fitted to a network, and those that are evenly spaced in time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from ablate.diffusion.grids import uniform_in_time
from ablate.diffusion.inits import Source
from ablate.diffusion.processes import GBM, VEGBM, Process, level
from ablate.generate import gits
from ablate.generate.draw import draw
from ablate.generate.gits import cheapest_path, deviations, fitted_grid, teacher_levels
from ablate.generate.plans import make_plan
from ablate.generate.settings import Settings
from ablate.models import bundle as bundles


def settings(**knobs: Any) -> Settings:
    chosen = {"sampler": "dpm++2m", "init": "class-average", "sigma": 0.8, "grid": "gits"}
    return Settings.model_validate(chosen | {"levels": 6, "s_min": 0.03} | knobs)


@pytest.fixture(scope="module")
def bundle(tiny_bundle: Path) -> bundles.Bundle:
    return bundles.read(tiny_bundle)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and few samples: the fit is the same."""
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path))
    monkeypatch.setattr(gits, "SAMPLES", 8)
    monkeypatch.setattr(gits, "BATCH", 4)
    return tmp_path / "gits"


def test_the_cheapest_path_is_the_best_of_all() -> None:
    costs = torch.rand(7, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for steps in range(1, 7):
        found = cheapest_path(costs, steps)
        every = [(0, *inner, 6) for inner in itertools.combinations(range(1, 6), steps - 1)]
        best = min(every, key=lambda p: sum(float(costs[a, b]) for a, b in itertools.pairwise(p)))
        assert found == list(best)


def test_deviations_are_those_of_one_euler_step(bundle: bundles.Bundle) -> None:
    """The teacher itself takes Euler steps, so its own steps deviate by rounding alone."""
    levels = teacher_levels(settings())
    off = deviations(bundle.score_model, levels)
    assert len(levels) == 61
    scale = float(off.max())
    assert float(off.diagonal(1).max()) < 1e-4 * scale  # float32
    assert float(off.tril().abs().max()) == 0
    assert bool((off[0, 2:].diff() > 0).all())  # the longer the step, the worse


def test_a_fitted_grid_is_a_grid_and_repeats(bundle: bundles.Bundle, own_cache: Path) -> None:
    score = bundle.score_model
    grid = fitted_grid(settings(), score)
    assert grid.dtype == torch.float64
    assert len(grid) == 6
    assert grid[[0, -2, -1]].tolist() == pytest.approx([0.8, 0.03, 0.0], rel=1e-12)
    assert bool((grid.diff() < 0).all())
    (file,) = own_cache.glob("*.safetensors")
    assert torch.equal(fitted_grid(settings(), score), grid)  # from the cache
    file.unlink()
    assert torch.equal(fitted_grid(settings(), score), grid)  # anew
    assert [each.name for each in own_cache.glob("*.safetensors")] == [file.name]


def test_one_fit_serves_every_number_of_levels_and_solver(
    bundle: bundles.Bundle, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = bundle.score_model
    fitted_grid(settings(), score)
    monkeypatch.setattr(gits, "deviations", None)  # would fail if called
    for knobs in ({"levels": 3}, {"levels": 62}, {"sampler": "pf-heun", "init": "gaussian"}):
        grid = fitted_grid(settings(**knobs), score)
        assert len(grid) == settings(**knobs).levels
    with pytest.raises(TypeError):
        fitted_grid(settings(s_min=0.05), score)
    with pytest.raises(TypeError):
        fitted_grid(settings(sigma=0.7), score)


def test_another_network_has_another_fit(bundle: bundles.Bundle, own_cache: Path) -> None:
    score = bundle.score_model
    fitted_grid(settings(), score)
    weight = next(score.model.net.parameters())
    with torch.no_grad():
        weight.mul_(2)
        fitted_grid(settings(), score)
        weight.div_(2)
    assert len(list(own_cache.glob("*.safetensors"))) == 2


def test_samples_are_drawn_on_the_fitted_grid(bundle: bundles.Bundle) -> None:
    chosen, score = settings(), bundle.score_model
    plan = make_plan(chosen, score)
    assert [step.s for step in plan] == fitted_grid(chosen, score)[:-1].tolist()
    drawing = draw(score, Source(bundle.moments), chosen, 0, 2)
    assert drawing.nfe == chosen.nfe == 5
    with pytest.raises(ValueError, match="fitted to a network"):
        make_plan(chosen)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"levels": 63}, "grid 'gits' has 62 at most"),
        ({"sampler": "adls", "integrator": "exponential", "s_min": None}, "grid = gits has no"),
        (
            {"sampler": "restart", "restart_low": 0.4, "restart_high": 0.3},
            "restart_low = 0.4 is not below",
        ),
        (
            {"sampler": "restart", "restart_low": 0.01, "restart_high": 0.02},
            "restart_high = 0.02 is not above",
        ),
        ({"sampler": "ipndm", "memory": 5}, "memory = 5 is not a whole number in"),
        ({"sampler": "dpm++2m", "memory": 2}, "has no such knob"),
    ],
)
def test_what_does_not_go_together_is_refused(knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**knobs)
    assert words in str(caught.value)


@pytest.mark.parametrize("process", [GBM(0.8), VEGBM(0.1, 1.2)])
def test_uniform_in_time_is_even_in_time(process: Process) -> None:
    grid = uniform_in_time(process, 9, 0.03)
    assert grid[[0, -2, -1]].tolist() == pytest.approx([level(process, 1.0), 0.03, 0.0], rel=1e-12)
    gaps = process.time(grid[:-1]).diff()
    torch.testing.assert_close(gaps, gaps.mean().expand(7), rtol=1e-10, atol=0)
    assert len(make_plan(settings(grid="uniform-t", levels=9))) == 8
