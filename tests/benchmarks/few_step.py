"""Few-step solvers of the probability flow on a bundle's network: KID by solver, grid and cost.

    python -m tests.benchmarks.few_step BUNDLE [SOLVER...]

Prints a Markdown table: KID in the features of the dataset's classifier, with its standard error,
of 256 samples of seed 0 from class-gaussian, sigma = 0.8, s_min = 0.03. A solver that cannot spend
a number of evaluations exactly spends the most below it. Solvers are those of SOLVERS; all of them
if none is named.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

from ablate.core.workspace import Workspace
from ablate.experiment.prepare import Setup
from ablate.experiment.showcase import setup_of_one
from ablate.generate.draw import draw
from ablate.generate.settings import Settings
from ablate.metrics.estimate import Estimate
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.reference import measure

SAMPLES, SEED = 256, 0
BUDGETS = (5, 6, 8, 10, 16)
GRIDS = ("geometric", "karras", "gits")
FIXED: dict[str, Any] = {"init": "class-gaussian", "sigma": 0.8, "s_min": 0.03}
SOLVERS: dict[str, dict[str, Any]] = {
    "pf-euler": {"sampler": "pf-euler"},
    "pf-heun": {"sampler": "pf-heun"},
    "dpm++2m": {"sampler": "dpm++2m"},
    "dpm++3m": {"sampler": "dpm++3m"},
    "ipndm": {"sampler": "ipndm"},
    "deis": {"sampler": "deis"},
    "unipc-2": {"sampler": "unipc", "memory": 2},
    "unipc-3": {"sampler": "unipc", "memory": 3},
    "heun-churn": {"sampler": "heun-churn"},
    "restart": {"sampler": "restart"},
}


def within_budget(solver: str, grid: str, budget: int) -> Settings:
    """The configuration with the most evaluations that do not exceed the budget."""
    knobs = FIXED | SOLVERS[solver] | {"grid": grid}
    every = (Settings.model_validate(knobs | {"levels": N}) for N in range(3, budget + 2))
    return max((each for each in every if each.nfe <= budget), key=lambda each: each.nfe)


def kid(setup: Setup, settings: Settings) -> Estimate:
    drawing = draw(setup.bundle.score_model, setup.source, settings, SEED, SAMPLES)
    assert drawing.reason is None, drawing.reason
    assert drawing.nfe == settings.nfe
    return measure(extract(setup.extractor, drawing.pixels), setup.reference)["kid"].estimate


def row(setup: Setup, solver: str, grid: str) -> str:
    """One line of the table; a budget that is not spent in full is shown with what is."""
    values: dict[int, Estimate] = {}
    cells = []
    for budget in BUDGETS:
        settings = within_budget(solver, grid, budget)
        if settings.nfe not in values:
            values[settings.nfe] = kid(setup, settings)
        value = values[settings.nfe]
        spent = "" if settings.nfe == budget else f" ({settings.nfe})"
        cells.append(f"{value.value:.3f} ± {value.error:.3f}{spent}")
    return f"| {solver} | {grid} | " + " | ".join(cells) + " |"


def main(bundle: str, solvers: list[str]) -> None:
    begun = time.monotonic()
    first = within_budget("pf-euler", "geometric", BUDGETS[0])
    setup = setup_of_one(Workspace(Path()), bundle, first, SAMPLES, SEED, "cpu")
    print(f"KID of {bundle}, {SAMPLES} samples, {setup.reference.protocol.hash}\n")
    print("| solver | grid | " + " | ".join(f"{budget} evaluations" for budget in BUDGETS) + " |")
    print("|---|---|" + "---|" * len(BUDGETS))
    for solver in solvers or SOLVERS:
        for grid in GRIDS:
            print(row(setup, solver, grid), flush=True)
    print(f"\n{time.monotonic() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    main(sys.argv[1], sys.argv[2:])
