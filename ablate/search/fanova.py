"""Functional analysis of variance: the shares of single knobs and of pairs of them, with errors.

Optuna's evaluator fits the forest but reports single knobs alone, as shares of their sum. Here the
shares are of the whole variance, so that what is left is of three and more knobs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import optuna

MAIN, PAIRS = "fANOVA variance", "fANOVA pairs"
ERROR = " error"
"""Ending of the method that holds the errors of another's shares: their spread over the trees."""

MOST_TRIALS, MOST_KNOBS = 100, 8
"""The marginals of pairs take time with the square of the trials, and pairs are many."""


def variance_shares(
    evaluator: optuna.importance.FanovaImportanceEvaluator, knobs: Sequence[str], trials: int
) -> dict[str, dict[str, float]]:
    """Method -> knob, or "knob and knob" -> share of the variance, after the evaluator was fitted.

    knobs: in the order of the evaluator's features.
    """
    forest: Any = evaluator._evaluator
    trees = [tree for tree in forest._trees if tree.variance > 0]
    columns = forest._column_to_encoded_columns

    def shares(*features: int) -> Any:
        """Of each tree, the variance of the marginal over these features, [trees]."""
        raw = np.concatenate([columns[feature] for feature in features])
        return np.array([max(t.get_marginal_variance(raw), 0.0) / t.variance for t in trees])

    single = {feature: shares(feature) for feature in range(len(knobs))}
    found = {knobs[feature]: each for feature, each in single.items()}
    methods = _with_errors(MAIN, found)
    if trials <= MOST_TRIALS and 2 <= len(knobs) <= MOST_KNOBS:
        both = {
            f"{knobs[i]} and {knobs[j]}": np.clip(shares(i, j) - single[i] - single[j], 0, None)
            for i, j in combinations(range(len(knobs)), 2)
        }
        methods |= _with_errors(PAIRS, both)
    return methods


def _with_errors(method: str, found: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        method: {name: float(each.mean()) for name, each in found.items()},
        method + ERROR: {name: float(each.std()) for name, each in found.items()},
    }
