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
    sees_running: whether history has the trials that are running, too, so that those in flight at
        the same time differ.
    finite: whether it needs a space that can be counted, and tries each point once.
    ladder: whether it takes a base and steps in place of a space to search.
    most_objectives: how many objectives it can optimise at once; None for any number.
    reads_pruned: whether it learns from pruned trials; if not, a study with it has no rungs.
    """

    name: str
    about: str
    propose: str | Callable[..., Any]
    learns: bool
    sees_running: bool = False
    finite: bool = False
    ladder: bool = False
    most_objectives: int | None = None
    reads_pruned: bool = True


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
        SearchMethod(
            "ladder",
            "a base, and steps taken one after another, alone, and left out",
            "ablate.search.proposals:from_grid",
            learns=False,
            finite=True,
            ladder=True,
        ),
        SearchMethod("random", "uniform draws", "ablate.search.proposals:at_random", learns=False),
        SearchMethod(
            "tpe",
            "tree-structured Parzen estimator",
            "ablate.search.proposals:by_tpe",
            learns=True,
            sees_running=True,
        ),
        SearchMethod(
            "qmc", "a scrambled Sobol sequence", "ablate.search.proposals:by_sobol", learns=False
        ),
        SearchMethod(
            "law",
            "from what the law predicts, one knob at a time around the best",
            "ablate.search.law:by_law",
            learns=True,
            sees_running=True,
            most_objectives=1,
        ),
        SearchMethod(
            "cmaes",
            "CMA-ES, for ranges of numbers",
            "ablate.search.proposals:by_cmaes",
            learns=True,
            most_objectives=1,
            reads_pruned=False,
        ),
        SearchMethod(
            "gp",
            "Gaussian-process optimisation",
            "ablate.search.proposals:by_gp",
            learns=True,
            reads_pruned=False,
        ),
    ],
)
