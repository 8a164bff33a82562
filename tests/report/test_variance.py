"""Where the variance comes from, in a report."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.report.blocks import Paragraph, Table
from ablate.report.variance import ALL, blocks
from ablate.results import ERROR, StudyResults, Trial, Value, summarise
from tests.support.records import cell, study

SEEDS = [0, 1, 2, 0, 1, 2]


def trained(number: int, values: list[float], error: float) -> Trial:
    """A trial of six cells, nested in three training seeds."""
    metrics = [{"kid": value, "kid" + ERROR: error} for value in values]
    means, halves = summarise(metrics, SEEDS)
    cells = [
        cell(number, k, each)._replace(training_seed=SEEDS[k]) for k, each in enumerate(metrics)
    ]
    params: dict[str, Value] = {"train.rate": 0.1 * number}
    return Trial(f"run-{number}", number, "complete", params, means, halves, None, cells)


def results_of(trials: list[Trial]) -> StudyResults:
    return study()._replace(trials=trials)


def test_studies_with_one_network_have_no_such_section() -> None:
    assert blocks(study()) == []


def test_known_components_are_found() -> None:
    """400 trials of σ_T = 2, σ_S = 0, σ_I = 1: a variance of 5, of which 80 % is training.

    MS_T has 800 degrees of freedom and an expectation of 9, MS_S 1,200 and 1: σ_T² = 4 is known to
    √(2 · 81/800 + 2/1200)/2 = 0.23, and its share to 0.8 · 0.2 · 0.23/4 · 5/4 < 0.02.
    """
    rng = np.random.default_rng(0)
    trials = []
    for number in range(400):
        a, e = 2 * rng.standard_normal(3), rng.standard_normal(6)
        values = [100 + a[s] + e[k] for k, s in enumerate(SEEDS)]
        trials.append(trained(number, values, error=1.0))
    sentence, table = blocks(results_of(trials))
    assert isinstance(sentence, Paragraph)
    assert isinstance(table, Table)
    *_, together = table.rows
    assert together[:2] == (None, ALL)
    training, sampling, images = together[-3:]
    assert training == pytest.approx(80, abs=4 * 2)
    # σ_S² = MS_S - 1 is known to √(2/1200) = 0.041, its share of 5 to 0.8 %
    assert 0 <= sampling < 4  # type: ignore[operator]
    assert sum((training, sampling, images)) == pytest.approx(100, abs=0.2)  # type: ignore[arg-type]
    assert len(table.rows) == 401
    assert "is training" in sentence.text
    assert sentence.text.endswith("Intervals hold images, sampling and training.")


def test_a_trial_without_errors_has_no_row() -> None:
    bare = trained(0, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], 0.1)
    cells = [each._replace(metrics={"kid": each.metrics["kid"]}) for each in bare.cells]
    assert blocks(results_of([bare._replace(cells=cells)])) == []
