"""The first sentences of a report, one test a kind of contrast."""

from __future__ import annotations

from typing import Any

import pytest

from ablate.core.asked import FORMS
from ablate.report.answers.contrast import KINDS, contrast
from ablate.results import StudyResults
from tests.support.records import empty, study, trial


def asking(answers: str, seeds: int = 3, **spec: Any) -> StudyResults:
    return study(seeds)._replace(spec={"answers": answers, **spec})


def said(answers: str, seeds: int = 3, **spec: Any) -> str:
    return " ".join(contrast(asking(answers, seeds, **spec)))


def test_every_form_has_its_file() -> None:
    assert set(KINDS) == set(FORMS)


def test_a_study_that_declares_nothing_gets_no_contrast() -> None:
    assert contrast(study()) == []
    assert contrast(empty()._replace(spec={"answers": "init"})) == []
    assert contrast(asking("a form? of another version")) == []


def test_a_knob_names_the_best_value_and_by_how_much() -> None:
    """class-gaussian is best at 0.0119; the oracle at 0.0094 is none of the values."""
    text = said("init")
    assert text.startswith("The init with the best KID is class-gaussian (0.01190 ± 0.00099)")
    assert "better than class-average by 0.01260 ± 0.00025 and lognormal by 0.1071 ± 0.0031" in text
    assert "forward-data" not in text


def test_settings_that_values_share_are_averaged() -> None:
    """Trials 1 and 2 differ by the start and r, 3 and 12, 10 and 13 by the start alone."""
    mean = ((0.119 - 0.0122) + (0.128 - 0.0119)) / 2
    assert f"differs from that with class-gaussian by +{mean:.4f}" in said("init")


def test_one_seed_claims_nothing() -> None:
    for line in ("init", "L vs r", "kid vs fid over chi", "kid per nfe"):
        text = said(line, seeds=1)
        assert "not known" in text, line
        assert not any(
            word in text for word in ("better than", " is worse", "moves", "no difference")
        ), line


def test_by_another_knob() -> None:
    text = said("sampler by init")
    assert "is not shown to depend on the init, although the best means differ: pf-heun" in text
    assert "no difference shows from adls-consistent (0.0003 ± 0.0017)" in text


def test_a_best_value_depends_on_another_knob_if_both_orders_are_clear() -> None:
    rows = [("a", 1, 1.0), ("a", 2, 2.0), ("b", 1, 2.0), ("b", 2, 1.0)]
    trials = [
        trial(n, {"init": init, "L": steps}, [{"kid": kid}, {"kid": kid + 1e-3}])
        for n, (init, steps, kid) in enumerate(rows)
    ]
    (first, *_) = contrast(asking("L by init")._replace(trials=trials))
    assert first == "The L with the best value depends on the init: L = 1 with a and L = 2 with b."


def test_two_knobs_are_compared_by_what_they_move() -> None:
    text = said("L vs r")
    assert "r moves KID by 0.0323 ± 0.0024" in text
    assert "L moves KID by 0.01500 ± 0.00025" in text


def test_two_metrics_over_a_knob_are_against_the_value_that_does_nothing() -> None:
    """No trial has chi = 1, so the lowest takes its place. What else differs is in brackets."""
    text = said("kid vs fid over chi")
    assert text.startswith("χ = 0.999 (L = 2) against χ = 0.995: no difference of KID shows")
    assert "χ = 0.9995 (class-average, n = 0) against χ = 0.995: KID is worse (+0.0123" in text
    assert "χ = 0.995 has KID 0.0122" in text
    assert "against χ = 0.995: no difference of KID shows (+0.0008 ± 0.0019)" in text


def test_what_cost_is_enough() -> None:
    text = said("kid per nfe")
    assert "17 NFE: KID 0.01260 ± 0.00075 (pf-heun); 37 NFE: KID 0.01190 ± 0.00099" in text
    assert text.startswith(
        "The best is KID 0.01190 ± 0.00099 at 37 NFE (pf-heun), and every cheaper"
    )
    assert "one is worse: 17 NFE by (7.0 ± 2.5) × 10⁻⁴ (paired, 95 %)." in text


def test_costs_without_a_difference_are_no_claim_that_there_is_none() -> None:
    """Trial 3 at 40 evaluations differs from 13 at 37 by 0.0003 ± 0.0017."""
    by_number = {t.number: t for t in study().trials}
    cheap = by_number[3]._replace(metrics=by_number[3].metrics | {"nfe": 20.0})
    found = asking("kid per nfe")._replace(trials=[cheap, by_number[13]])
    assert contrast(found)[0] == (
        "From 20 network evaluations a sample (NFE) on (adls-consistent, KID 0.01220 ± 0.00099) no"
        " difference from the best of all shows: KID 0.01190 ± 0.00099 at 37 NFE (pf-heun), a"
        " difference of 0.0003 ± 0.0017 (paired, 95 %)."
    )


def test_many_values_are_summed_up() -> None:
    trials = [
        trial(n, {"init": f"start {n}"}, [{"kid": n + d} for d in (0.0, 0.1)]) for n in range(9)
    ]
    text = " ".join(contrast(asking("init")._replace(trials=trials)))
    assert "start 4 by 4 and 4 others by 5 or more" in text


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (0, "is better than the paper's setting by 0.0191 ± 0.0017"),
        (3, "No difference shows between the best found, trial 13"),
        (13, "Nothing that was tried is better than the paper's setting"),
        (17, "The paper's setting has no result yet"),
    ],
)
def test_the_best_against_a_name(place: int, words: str) -> None:
    assert words in said(
        "best vs the paper's setting", confirm={"named": {"the paper's setting": place}}
    )


def test_published_rows_are_compared_by_their_order_alone() -> None:
    rows = [
        {"knobs": {"sampler": "adls", "init": "class-average"}, "metrics": {"kid": 0.5}},
        {"knobs": {"sampler": "asams", "init": "class-average"}, "metrics": {"kid": 0.1}},
        {"knobs": {"sampler": "adls", "init": "lognormal"}, "metrics": {"kid": 0.9}},
    ]
    text = said("published", published=rows)
    assert text.startswith(
        "The paper's best row by KID, asams, class-average (0.1 there), is worse in ours than our"
        " best, adls, class-average, by 0.01"
    )
    assert "do not compare" in text
    assert "rank correlation of the 3 rows, theirs with ours, is 0.50" in text


def test_a_best_row_that_both_share_is_said_so() -> None:
    rows = [
        {"knobs": {"sampler": "adls", "init": "class-average"}, "metrics": {"kid": 0.1}},
        {"knobs": {"sampler": "adls", "init": "lognormal"}, "metrics": {"kid": 0.9}},
    ]
    text = said("published", published=rows)
    assert "adls, class-average, has the best mean of ours, too: KID 0.02720 ± 0.00075" in text
