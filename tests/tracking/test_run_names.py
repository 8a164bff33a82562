"""Names of trials: short, and with what varies alone."""

from __future__ import annotations

import pytest

from ablate.results import Value
from ablate.tracking.run_names import trial_name, varied


@pytest.mark.parametrize(
    ("knob", "value", "shown"),
    [
        ("init", "class-gaussian", "class-gaussian"),
        ("chi", 0.99551, "χ.9955"),
        ("chi", 0.99995, "χ.99995"),
        ("chi", 1.0, "χ1"),
        ("chi", 0.995, "χ.995"),
        ("rho", 0.95, "ρ.95"),
        ("sigma", 1.1304, "σ1.13"),
        ("L", 3, "L3"),
        ("levels", 12, "levels 12"),
        ("guide_low", 0.1, "guide low .1"),
        ("r", "law", "r law"),
        ("label", "none", "label none"),
        ("annealing", 5e-05, "annealing 5e-05"),
        ("shift", -0.25, "shift -.25"),
    ],
)
def test_a_knob_is_short(knob: str, value: Value, shown: str) -> None:
    assert trial_name(3, {knob: value, "N": 1000}, [knob]) == f"#3 {shown}"


def test_a_confirmation_says_what_it_confirms() -> None:
    assert trial_name(9, {"chi": 0.995}, ["chi", "L"], "3") == "#9 again #3 χ.995"


def test_what_varies_is_named_as_it_is_recorded() -> None:
    """Words first; a search of 1 - chi is recorded as chi; a single choice does not vary."""
    spec = {
        "search": {
            "annealing": {"low": 5e-5, "high": 0.005},
            "left": {"low": 0.02, "high": 1.0},
            "grid": {"choices": ["karras"]},
            "init": {"choices": ["gaussian", "lognormal"]},
        },
        "rows": [{"sigma": 0.4, "L": 1}, {"sigma": 0.8, "L": 1}, {"sigma": 0.8, "L": 1, "mu": 0.1}],
    }
    assert varied(spec) == ("init", "chi", "n", "sigma", "mu")
