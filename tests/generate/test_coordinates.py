"""Search coordinates: rho, annealing and left give the paper's r, chi and n, and come back."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ablate.core.errors import UserError
from ablate.diffusion.grids import annealing, relative_steps, uniform
from ablate.diffusion.processes import GBM, VEGBM
from ablate.generate.applicability import listens
from ablate.generate.coordinates import COORDINATES, in_coordinates, in_paper_knobs, law_step
from ablate.generate.plans import literal_steps, make_kernel, make_plan
from ablate.generate.presets import with_knobs
from ablate.generate.settings import Settings
from ablate.samplers.kernel import State
from ablate.samplers.registry import SAMPLERS
from ablate.study.definition import Study
from ablate.study.resolve import parse
from tests.generate.test_settings import refusal, settings

EXPONENTIAL = {"integrator": "exponential", "levels": 12}


@pytest.mark.parametrize("chi", [1.0, 0.9999, 0.9995, 0.999, 0.995])
@pytest.mark.parametrize("N", [20, 1000])
@pytest.mark.parametrize("process", [GBM(1.0), GBM(0.8), VEGBM(0.2, 1.5)])
def test_the_law_s_step_is_the_mean_over_log_levels_of_the_plan_s(
    chi: float, N: int, process: GBM | VEGBM
) -> None:
    """By the functions that plans are made from. float64 rounds some 1,000 summands: 1e-12."""
    grid = uniform(process, N)
    steps = relative_steps("law", annealing(process.time(grid), chi))
    widths = (grid[:-2] / grid[1:-1]).log()  # of all levels but the last, which ends on 0
    expected = float((steps[:-1] * widths).sum() / widths.sum())
    assert law_step(chi, N, process) == pytest.approx(expected, rel=1e-12)


def test_the_law_s_step_at_the_paper_s_annealing() -> None:
    found = [round(law_step(chi), 3) for chi in (1.0, 0.9999, 0.9995, 0.999, 0.995)]
    assert found == [1.0, 0.866, 0.646, 0.563, 0.506]


def test_coordinates_give_the_paper_s_knobs() -> None:
    chosen = settings(annealing=5e-4, rho=1.1, left=0.12, L=1, **EXPONENTIAL)
    assert chosen.chi == 0.9995
    assert chosen.r == pytest.approx(1.1 * law_step(0.9995), rel=1e-11)
    assert chosen.n == 2  # |1 - 0.71|² = 0.084 is nearer on a log scale than 0.29
    assert "rho" not in chosen.model_dump()


def test_what_is_logged() -> None:
    knobs = settings(annealing=5e-4, rho=1, left=0.12, **EXPONENTIAL).knobs()
    assert (knobs["chi"], knobs["n"], knobs["rho"]) == (0.9995, 2, 1.0)
    assert knobs["delta"] == pytest.approx(float(knobs["r"]) / 1000)
    assert not {"annealing", "left"} & set(knobs)
    assert settings(chi=0.995, r=0.586).knobs()["rho"] == pytest.approx(0.586 / law_step(0.995))
    assert "rho" not in settings(chi=0.995, r="law").knobs()
    for name in ("adls-consistent", "asams-as-printed"):
        assert "rho" not in settings(sampler=name, chi=0.995).knobs()


def test_an_ve_schedule_has_its_own_law_s_step() -> None:
    """Its levels lie otherwise in time, so kappa falls otherwise along log s."""
    ve = {"schedule": "ve", "sigma": None, "sigma_min": 0.2, "sigma_max": 1.5}
    chosen = settings(rho=1, chi=0.9995, **ve, **EXPONENTIAL)
    assert chosen.r == pytest.approx(law_step(0.9995, 1000, VEGBM(0.2, 1.5)), rel=1e-11)
    assert abs(float(chosen.r or 0) - law_step(0.9995)) > 0.01


def noise_left(chosen: Settings) -> float:
    """What is left of y - D = 1 after the noise-free steps, by the kernel itself and D = 0."""
    kernel, plan = make_kernel(chosen), make_plan(chosen)
    state = State.of_log(torch.ones(1, 1, dtype=torch.float64))
    for step in plan[len(plan) - (chosen.n or 0) :]:
        state, _ = kernel(lambda y, s: torch.zeros_like(y), state, step, torch.ones(1, 1).double())
    return float(state.y)


STEPS: list[dict[str, Any]] = [
    {"r": 0.65, "chi": 0.9995},
    {"r": 0.65, "L": 6},
    {"r": "law", "chi": 0.995, "L": 2},
    {"r": "law", "chi": 0.9995},
    {"delta": 6e-3, "L": 2},
    {"sampler": "adls-consistent", "chi": 0.995},
    {"sampler": "adls-consistent", "chi": 1.0, "L": 3},
]


@pytest.mark.parametrize("knobs", STEPS)
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_left_is_what_the_literal_run_leaves(knobs: dict[str, Any], n: int) -> None:
    given = {**knobs, "integrator": "literal", "N": 100}
    exact = settings(**given, n=n)
    left = in_coordinates({"n": n}, {"sampler": exact.sampler, **given}, ["left"])["left"]
    assert noise_left(exact) == pytest.approx(left, rel=1e-12)
    assert settings(**given, left=left) == exact


@pytest.mark.parametrize("knobs", [*STEPS, {"sampler": "asams", "r": 0.6, "L": 2}])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_left_is_what_an_exponential_run_leaves(knobs: dict[str, Any], n: int) -> None:
    given = {**knobs, **EXPONENTIAL, "N": 100}
    exact = settings(**given, n=n)
    fine = literal_steps(exact)
    left = in_coordinates({"n": n}, {"sampler": exact.sampler, **given}, ["left"])["left"]
    kept = torch.tensor(fine.keep[fine.walked :], dtype=torch.float64).prod()
    assert float(kept) == pytest.approx(left, rel=1e-12)
    assert all(noise == 0 for noise in fine.noise[fine.walked :])
    assert settings(**given, left=left) == exact


def test_left_where_one_step_removes_everything() -> None:
    """At r = L: no step for most of the noise, one for a tenth of it or less."""
    found = [settings(r=1.0, left=left).n for left in (1, 0.5, 0.11, 0.09, 0.01)]
    assert found == [0, 0, 0, 1, 1]


@given(
    r=st.floats(0.05, 1.9),
    chi=st.sampled_from([1.0, 0.9995, 0.995, 0.9]) | st.floats(0.9, 1.0),
    L=st.integers(1, 6),
    n=st.integers(0, 40),
)
def test_there_and_back(r: float, chi: float, L: int, n: int) -> None:
    """r to its 12 digits, chi and n exactly; `left` underflows nowhere below 40 steps."""
    assume(abs(1 - r / L) < 0.999)
    fixed = {"sampler": "adls", "L": L, "N": 1000}
    row = in_coordinates({"r": r, "chi": chi, "n": n}, fixed, list(COORDINATES))
    assert set(row) == set(COORDINATES)
    assume(row["left"] >= 1e-9)
    back = in_paper_knobs({**fixed, **row})
    assert back["chi"] == chi
    assert back["n"] == n
    assert back["r"] == pytest.approx(r, rel=1e-11)


@pytest.mark.parametrize("r", [0.4, 0.517, 0.586, 0.606, 0.65, 0.684, 0.75])
@pytest.mark.parametrize("chi", [0.995, 0.9995, 0.999])
def test_printed_numbers_come_back_as_printed(r: float, chi: float) -> None:
    fixed = {"sampler": "adls"}
    row = in_coordinates({"r": r, "chi": chi}, fixed, list(COORDINATES))
    assert row["annealing"] in (0.005, 0.0005, 0.001)
    assert in_paper_knobs({**fixed, **row}) == {**fixed, "r": r, "chi": chi}


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_a_coordinate_listens_exactly_when_its_paper_knob_does(name: str) -> None:
    for coordinate in COORDINATES.values():
        chosen = {"sampler": name}
        assert listens(coordinate.name, chosen) == listens(coordinate.paper, chosen)
        if not listens(coordinate.name, chosen):
            words = f"{coordinate.name}: sampler {name!r} has no such knob"
            assert words in refusal(**chosen, **{coordinate.name: 0.5})


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"rho": 1, "r": 0.6}, "rho = 1 and r = 0.6: give one; rho decides r"),
        ({"rho": 1, "delta": 1e-3}, "rho = 1 and delta = 0.001: give one"),
        ({"annealing": 1e-3, "chi": 0.99}, "annealing = 0.001 and chi = 0.99: give one"),
        ({"left": 0.1, "n": 2}, "left = 0.1 and n = 2: give one"),
        ({"left": 0}, "left = 0 is not a number in [1e-09, 1]"),
        ({"annealing": 1.0}, "annealing = 1.0 is not a number in [0, 0.999]"),
        ({"rho": "law"}, "rho = 'law' is not a number"),
        ({"rho": True}, "rho = True is not a number"),
        ({"rho": 1, "chi": 2.0}, "chi = 2.0 is not a number"),
        ({"left": 0.1, "L": "two"}, "L = 'two' is not a whole number"),
        ({"left": 0.1, "r": "lore"}, "r = 'lore' is not a number"),
        ({"left": 0.1, "r": 2.5}, "left = 0.1: noise-free steps of r/L = 2.5 remove no noise"),
        ({"rho": 1, "schedule": "ve"}, "sigma_min is missing; schedule 've' needs it"),
    ],
)
def test_refusals_are_one_line(knobs: dict[str, Any], words: str) -> None:
    assert words in refusal(**knobs)


def test_the_command_line_and_python_take_them() -> None:
    chosen = with_knobs(
        (0.002, 3.0), {"sampler": "adls", "annealing": 5e-4, "rho": 1, "left": 0.1, "cost": 20}
    )
    assert (chosen.chi, chosen.n, chosen.nfe) == (0.9995, 2, 20)  # levels are left for n = 2
    with pytest.raises(ValidationError, match="rho: sampler 'pf-heun' has no such knob"):
        with_knobs((0.002, 3.0), {"rho": 1})


def test_reading_coordinates_imports_no_torch() -> None:
    code = "import sys, ablate.generate.coordinates; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- in study files -------------------------------------------------------------------------------

TEXT = """
question = "Which?"
bundle = "digits"
method = "law"
first = [{first}]
[fixed]
sampler = "adls"
init = "class-average"
integrator = "exponential"
levels = 12
[search]
annealing = {{ low = 5e-5, high = 5e-3, log = true }}
rho = {{ low = 0.7, high = 1.5, log = true }}
left = {{ low = 0.02, high = 1.0, log = true }}
L = {{ low = 1, high = 6 }}
sigma = {{ low = 0.4, high = 1.6, log = true }}
[budgets.quick]
samples = 8
trials = 14
"""


def study(first: str, *changes: tuple[str, str]) -> Study:
    text = TEXT.format(first=first)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "s", "quick")


def test_first_rows_may_be_written_with_the_paper_s_knobs() -> None:
    rows = [
        {"L": 1, "r": 0.586, "chi": 0.995, "n": 0, "sigma": 0.8},
        {"L": 6, "r": 0.684, "chi": 0.9995, "n": 25, "sigma": 0.8},
    ]
    texts = ["{ " + ", ".join(f"{k} = {v}" for k, v in row.items()) + " }" for row in rows]
    spec = study(", ".join(texts))
    for row, params in zip(rows, spec.first, strict=True):
        assert set(params) == {"annealing", "rho", "left", "L", "sigma"}
        found = spec.settings(params)
        assert {knob: getattr(found, knob) for knob in row} == row


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("chi = 0.9, r = 0.6, n = 0", "first.0.annealing = 0.1 is not within search.annealing"),
        ("chi = 0.995, r = 1.1, n = 0", "first.0.rho = 2.17"),
        ("chi = 0.995, r = 0.6, n = 25", "first.0.left = 1.1"),
        ('chi = 0.995, r = "law", n = 0', "first.0.r = 'law' is neither searched nor fixed so"),
        ("chi = 0.995, r = 0.6, rho = 1.0, n = 0", "rho = 1.0 and r = 0.6: give one"),
        ("chi = 0.995, n = 0", "first.0: rho is missing"),
    ],
)
def test_first_rows_outside_of_the_space(row: str, words: str) -> None:
    with pytest.raises(UserError, match=r"^s\.toml: ") as caught:
        study(f"{{ {row}, L = 1, sigma = 0.8 }}")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_study_cannot_search_a_coordinate_beside_its_paper_knob() -> None:
    with pytest.raises(UserError, match=r"rho = 0.7 and r = 0.6: give one"):
        study("", ("levels = 12", "levels = 12\nr = 0.6"))
    with pytest.raises(UserError, match=r"search.rho applies to no configuration"):
        study("", ('sampler = "adls"', 'sampler = "adls-consistent"'))
