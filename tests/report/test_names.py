"""How knobs, metrics and numbers are written."""

from __future__ import annotations

import pytest

from ablate.report import answer, knobs, ranking, tables
from ablate.report.names import Estimate, baseline_name, configuration, metric_name, number, text
from ablate.results import StudyResults, Vocabulary


@pytest.mark.parametrize(
    ("value", "half", "expected"),
    [
        (0.0421, 0.0173, "0.042 ± 0.017"),
        (0.04213, 0.00173, "0.0421 ± 0.0017"),
        (0.5, 0.0996, "0.50 ± 0.10"),  # rounds up to one digit more
        (23.44, 1.23, "23.4 ± 1.2"),
        (335.2, 12.4, "335 ± 12"),
        (1234.0, 123.0, "1,230 ± 120"),
        (-0.0012, 0.0034, "−0.0012 ± 0.0034"),
        (-0.0004, 0.014, "0.000 ± 0.014"),  # no zero has a sign
        (3.14e-5, 1.2e-6, "(3.14 ± 0.12) × 10⁻⁵"),
        (40.0, 0.0, "40"),
        (0.04213, None, "0.04213"),
        (0.013, 1e-18, "0.013"),  # equal over the seeds, up to rounding
    ],
)
def test_a_value_is_rounded_to_the_second_digit_of_its_interval(
    value: float, half: float | None, expected: str
) -> None:
    assert text(Estimate(value, half)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1200, "1,200"),
        (0.9995, "0.9995"),
        (1.0, "1"),
        (-0.5, "−0.5"),
        (5.86e-4, "0.000586"),
        (123456.7, "123,457"),
        (17603.2, "17,603"),
        (float("nan"), "nan"),
        (3.1e-6, "3.1 × 10⁻⁶"),
    ],
)
def test_numbers_without_interval(value: float, expected: str) -> None:
    assert number(value, 5) == expected


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("held-out images", "held-out images"),
        ("held-out images - only 256 in one set", "256 held-out images"),
        ("held-out images - only 10000 in 2 sets", "10,000 held-out images in 2 sets"),
        ("training images - only 359", "359 training images"),
    ],
)
def test_baselines_say_how_many_images_they_are(recorded: str, shown: str) -> None:
    assert baseline_name(recorded) == shown


def test_knobs_near_one_keep_their_distance_from_it() -> None:
    assert [text(v) for v in (0.99996, 0.639914, 1.0, 40, "adls")] == (
        ["0.99996", "0.6399", "1", "40", "adls"]
    )


def test_names_are_the_papers(results: StudyResults) -> None:
    assert configuration(results, results.trials[5], knobs.varied(results)) == (
        "adls-consistent, class-gaussian, χ = 0.999, r = 1, L = 2, n = 1, levels = 40"
    )
    assert [metric_name(results, m) for m in ("fid", "flip_rate")] == ["FID", "flip rate"]
    assert text(None) == "–"


def test_labels_and_leaks_are_the_studys(results: StudyResults) -> None:
    """As they were when it was run; names without a label are written by rule."""
    vocabulary = Vocabulary({"kid": "kernel distance"}, frozenset({"lognormal"}))
    other = results._replace(vocabulary=vocabulary)
    assert metric_name(other, "kid") == "kernel distance"
    assert metric_name(other, "nn_pixel_c_t") == "NN pixel C_T"
    assert tables.best(other).header[9].label == "kernel distance ↓"
    assert "the best by kernel distance" in answer.answer(other)[0]
    assert [t.number for t in ranking.contenders(other)[:2]] == [9, 13]
    assert configuration(other, results.trials[2], ["L"]) == "L = 1, leaks data"
    assert configuration(other, results.trials[9], ["init"]) == "forward-data"


def test_a_baseline_is_named_in_words() -> None:
    plain = "class Gaussians, no network"
    assert baseline_name("class-gaussian without network") == plain
    assert baseline_name("held-out images") == "held-out images"
