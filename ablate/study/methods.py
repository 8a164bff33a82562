"""The search methods by name. A new one is one function and one record here.

Importing this module imports no Optuna: functions are named by reference and imported when used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ablate.core.registry import Registry


@dataclass(frozen=True)
class SearchMethod:
    """How a study decides what to try next.

    propose: a function `(study, n, history) -> Proposal` for the n-th proposal after the
        configurations that come first, itself or as "module:name". It must depend on nothing
        else, so that a killed study continues as if nothing had happened.
    learns: whether proposals depend on earlier results; if not, history is empty.
    finite: whether it needs a space that can be counted, and tries each point once.
    most_objectives: how many objectives it can optimise at once; None for any number.
    """

    name: str
    about: str
    propose: str | Callable[..., Any]
    learns: bool
    finite: bool = False
    most_objectives: int | None = None


METHODS: Registry[SearchMethod] = Registry(
    "search method",
    "ablate.search_methods",
    SearchMethod,
    [
        SearchMethod(
            "grid",
            "every configuration once",
            "ablate.search.proposals:from_grid",
            learns=False,
            finite=True,
        ),
        SearchMethod("random", "uniform draws", "ablate.search.proposals:at_random", learns=False),
        SearchMethod(
            "tpe",
            "tree-structured Parzen estimator",
            "ablate.search.proposals:by_tpe",
            learns=True,
        ),
        SearchMethod(
            "qmc", "a scrambled Sobol sequence", "ablate.search.proposals:by_sobol", learns=False
        ),
        SearchMethod(
            "cmaes",
            "CMA-ES, for ranges of numbers",
            "ablate.search.proposals:by_cmaes",
            learns=True,
            most_objectives=1,
        ),
        SearchMethod(
            "gp", "Gaussian-process optimisation", "ablate.search.proposals:by_gp", learns=True
        ),
    ],
)
