"""Which literal runs have a grid too coarse for them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ablate.core.coarseness import BAND
from ablate.core.workspace import Workspace
from ablate.generate.coarseness import coarseness
from ablate.generate.settings import Settings
from ablate.samplers.registry import SAMPLERS
from ablate.study.find import find, names, read


def settings(sampler: str = "adls", **knobs: Any) -> Settings:
    return Settings(**{"sampler": sampler, "init": "gaussian", "sigma": 0.8, **knobs})


PAPER: list[dict[str, Any]] = [
    {"sampler": "adls", "r": 0.606, "chi": 0.995},
    {"sampler": "asams", "r": 0.572, "chi": 0.995, "L": 4},
    {"sampler": "adls", "r": 0.633, "chi": 0.995, "L": 3},
    {"sampler": "asams", "r": 0.66, "chi": 0.995, "L": 2},
    {"sampler": "asams", "r": 0.633, "chi": 1.0, "L": 3},
    {"sampler": "adls", "r": 0.586, "chi": 0.995},
    {"sampler": "asams", "r": 0.75, "chi": 0.9995, "L": 3},
    {"sampler": "asams", "r": 0.429, "chi": 0.9995, "L": 3},
    {"sampler": "adls", "r": 0.684, "chi": 0.9995, "L": 6},
    {"sampler": "asams", "r": 0.715, "chi": 0.9995, "L": 5},
    {"sampler": "adls-consistent", "chi": 0.995},
    {"sampler": "asams-consistent", "chi": 1.0},
    {"sampler": "dale-langevin"},
    {"sampler": "sign-agnostic"},
]
"""Tables 3 and 4 of the paper, then other samplers of the same laws."""

every_setting = pytest.mark.parametrize("knobs", PAPER, ids=str)


@every_setting
@pytest.mark.parametrize("sigma", [0.8, 3.0])
@pytest.mark.parametrize("N", [1000, 550])
def test_the_paper_runs_do_not_warn(knobs: dict[str, Any], sigma: float, N: int) -> None:
    found = coarseness(settings(**knobs | {"grid": "uniform", "levels": N, "sigma": sigma}))
    assert found is not None
    assert not found.warns
    assert BAND[0] <= found.ratio <= BAND[1]


@every_setting
def test_fifty_uniform_levels_warn(knobs: dict[str, Any]) -> None:
    found = coarseness(settings(**knobs, grid="uniform", levels=50))
    assert found is not None
    assert found.warns
    assert found.s == pytest.approx(0.8 / 50**0.5)  # the lowest level is the worst


def test_geometric_levels_warn_until_there_are_enough() -> None:
    """The ratio of ADLS at chi = r = 1 is (s/s_next)²: outside the band below 32 levels to 0.03."""
    counts = (3, 6, 12, 16, 31, 32, 50, 200)
    found = [coarseness(settings("dale-langevin", levels=n, s_min=0.03)) for n in counts]
    ratios = [each.ratio for each in found if each is not None]
    assert len(ratios) == len(counts)
    assert all(coarser > finer for coarser, finer in pairwise(ratios))
    assert [each.warns for each in found if each] == [True] * 5 + [False] * 3


def test_annealing_needs_more_levels() -> None:
    """kappa falls within a level, which literal steps do not see; and noise settles more slowly."""
    still, annealed = (
        coarseness(settings("adls-consistent", levels=50, chi=chi)) for chi in (1.0, 0.995)
    )
    assert still is not None
    assert annealed is not None
    assert not still.warns
    assert annealed.warns


def test_exponential_and_deterministic_runs_have_no_ratio() -> None:
    assert coarseness(settings(integrator="exponential", levels=6, chi=0.995)) is None
    for name, sampler in SAMPLERS.items():
        if not sampler.stochastic:
            assert coarseness(settings(name, levels=6)) is None
    assert coarseness(settings("asams-as-printed", levels=6)) is None  # it follows no law


def test_grids_that_are_fitted_to_a_network_have_no_ratio() -> None:
    assert coarseness(settings(grid="gits", levels=12)) is None
    assert coarseness(settings(grid="karras", levels=12)) is not None


def test_an_exploding_run_warns() -> None:
    found = coarseness(settings(levels=64, r=60.0, s_min=0.03))
    assert found is not None
    assert found.warns


def test_start_and_denoising_steps_do_not_matter() -> None:
    plain = coarseness(settings(levels=12, chi=0.995))
    assert plain == coarseness(settings(levels=12, chi=0.995, n=9, init="lognormal"))


@pytest.mark.parametrize("budget", ["smoke", "quick", "full"])
def test_shipped_studies_warn_only_about_fifty_uniform_levels(budget: str, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for name in names(workspace):
        study = read(find(workspace, name), budget)
        for params in study.corners():
            chosen = study.settings(params)
            found = coarseness(chosen)
            if found is not None and found.warns:
                assert chosen.paper_levels == 50, (name, params)
