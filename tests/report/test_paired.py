"""Paired differences: by recorded covariances, by the errors of old records, by seeds alone."""

from __future__ import annotations

import math

import pytest

from ablate.core.quantiles import Z95
from ablate.report.paired import (
    UNPAIRED,
    common_group,
    confirmed_group,
    fitting_group,
    searched_group,
)
from ablate.results import ERROR, StudyResults, Value
from tests.support.records import HALF, study, trial

KNOBS: dict[str, Value] = {"sampler": "adls"}


def recorded(which: str = "complete") -> StudyResults:
    """Trials 0 and 1, with errors of 3 and 4 and a covariance of 10 that they share."""
    document = {
        "trials": [0, 1],
        "training_seeds": [None, None],
        "metrics": {
            "kid": {"values": [[5.0, 7.0], [1.0, 3.0]], "covariance": [[9.0], [10.0, 16.0]]}
        },
    }
    return study()._replace(comparisons={which: document})


def test_shared_noise_cancels() -> None:
    found = searched_group(recorded()).difference(0, 1)
    error = math.sqrt(9 + 16 - 2 * 10)
    assert found.value == 4.0
    assert found.half == pytest.approx(Z95 * error)
    assert found.p == pytest.approx(math.erfc(4 / error / math.sqrt(2)))
    assert not found.clear
    assert found.how == "paired"


def test_a_contrast_of_more_than_two_adds_every_covariance() -> None:
    found = searched_group(recorded()).contrast({0: 0.5, 1: 0.5})
    assert found.value == 4.0
    assert found.half == pytest.approx(Z95 * math.sqrt((9 + 16 + 2 * 10) / 4))


def test_a_trial_differs_from_itself_by_nothing() -> None:
    assert searched_group(recorded()).difference(1, 1)[:3] == (0.0, 0.0, 1.0)


def test_old_records_add_the_errors_of_both() -> None:
    cells = [[{"kid": value, "kid" + ERROR: error}] * 2 for value, error in ((5.0, 3), (1.0, 4))]
    results = study()._replace(trials=[trial(n, KNOBS, each) for n, each in enumerate(cells)])
    found = searched_group(results).difference(0, 1)
    assert found.half == pytest.approx(Z95 * math.sqrt((9 + 16) / 2))
    assert found.how == UNPAIRED


def test_records_without_errors_have_the_differences_of_seeds() -> None:
    """The offsets of trials 3 and 6 are alike, with spreads of 0.0004 and 0.0003."""
    found = searched_group(study()).difference(3, 6)
    assert found.value == pytest.approx(0.0122 - 0.0272)
    assert found.half == pytest.approx(HALF * 0.0001, rel=1e-3)
    assert found.p is not None
    assert found.p < 0.001


def test_one_seed_without_an_error_has_no_interval() -> None:
    found = searched_group(study(seeds=1)).difference(3, 6)
    assert (found.half, found.p, found.clear) == (None, None, False)


def test_confirmed_values_are_taken_where_they_have_all() -> None:
    results = recorded("confirmed")
    assert confirmed_group(results) is not None
    assert fitting_group(results, [0, 1]).confirmed
    assert not fitting_group(results, [0, 2]).confirmed
    assert common_group(results) is None
