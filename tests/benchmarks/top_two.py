"""Do a study's two best configurations hold against the literal 1,000-level run?

    python -m tests.benchmarks.top_two FOLDER SAMPLES STUDY...

Before a finding is written down: the two best trials of a study that used exponential integrators
(quick budget, under the current folder) are drawn again beside the literal runs that they stand
for, on the same Brownian path. Literal runs are kept in FOLDER, as those of `literal_runs`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import ablate
from ablate.generate.settings import Settings
from ablate.metrics.estimate import paired_difference
from ablate.results import Trial
from tests.benchmarks.faithful import measured, on_the_literal_path, spelt
from tests.benchmarks.literal_runs import literal_samples, setup_for

WALKED_ANEW = {"integrator", "order", "N", "levels", "cost", "grid", "delta"}
"""Knobs of how a law is integrated; those of the law itself stay."""


def settings_of(trial: Trial) -> Settings:
    """The configuration of a trial; r says what delta and rho would say again."""
    again = ("delta", "rho")
    return Settings.model_validate({k: v for k, v in trial.params.items() if k not in again})


def literal_of(settings: Settings) -> Settings:
    """The literal run that an exponential configuration stands for."""
    chosen = settings.model_dump(exclude_none=True, exclude_unset=True)
    law = {knob: value for knob, value in chosen.items() if knob not in WALKED_ANEW}
    return Settings.model_validate(law | {"grid": "uniform", "levels": settings.paper_levels})


def check(folder: Path, name: str, samples: int) -> None:
    study = ablate.load_results(name, "quick")
    exponential = [t for t in study.results.ranked() if t.params.get("integrator") == "exponential"]
    for trial in exponential[:2]:
        settings = settings_of(trial)
        setup = setup_for(study.results.spec["bundle"], settings, samples)
        literal = literal_of(settings)
        whole = measured(setup, literal_samples(folder, setup, literal, samples))
        few = measured(setup, on_the_literal_path(setup, settings, samples))
        apart = paired_difference(few["kid"], whole["kid"])
        print(f"{name}, trial {trial.number}: {trial.params}")
        print(f"  study: kid {trial.metrics['kid']:.4f} ± {trial.intervals.get('kid', 0):.4f}")
        print(f"  literal, {literal.nfe} evaluations, {samples} samples: {spelt(whole)}")
        print(f"  exponential, {settings.nfe} evaluations: {spelt(few)}")
        print(
            f"  difference of KID: {apart.value:+.4f}, standard error {apart.error:.4f}", flush=True
        )


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    for study_name in sys.argv[3:]:
        check(Path(sys.argv[1]), study_name, int(sys.argv[2]))
