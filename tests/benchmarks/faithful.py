"""Do exponential integrators stand for the literal runs of the paper's samplers?

    python -m tests.benchmarks.faithful FOLDER SAMPLES JOB...

A job is as for `literal_runs`, whose samples are taken from FOLDER (and drawn if they are not
there). Each literal run is compared with exponential ones of both orders on the same Brownian path:
KID and FID in the features of the dataset's classifier, and the difference with its paired standard
error.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from ablate.data.datasets import to_pixels
from ablate.diffusion.inits import INITS
from ablate.experiment.prepare import Setup
from ablate.generate.draw import _denoiser
from ablate.generate.plans import literal_steps, make_kernel, make_plan, places
from ablate.generate.settings import Settings
from ablate.metrics.estimate import Measured, paired_difference
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.reference import measure
from ablate.samplers.drive import drive
from ablate.samplers.noise import StepNoise, start_numbers
from ablate.samplers.shared_path import SharedPath
from tests.benchmarks.literal_runs import BATCH, SEED, job, literal_samples, setup_for

SPENT = ((1, 12), (1, 20), (2, 8), (2, 12), (2, 16), (2, 20), (2, 25))
"""Orders and evaluations of the exponential runs."""


def standing_for(literal: Settings, order: int, levels: int) -> Settings:
    knobs = literal.model_dump(exclude_none=True) | {
        "integrator": "exponential",
        "order": order,
        "N": literal.levels,
        "levels": levels,
        "grid": "geometric",
    }
    return Settings.model_validate(knobs)


def on_the_literal_path(setup: Setup, settings: Settings, samples: int) -> Tensor:
    """x of the first samples, with the start and the Brownian path of the literal run."""
    score, plan = setup.bundle.score_model, make_plan(settings)
    fine, groups, parts = literal_steps(settings), places(settings), []
    for first in range(0, samples, BATCH):
        indices = range(first, first + BATCH)
        u, z = start_numbers(SEED, indices, setup.bundle.moments.everything.mean.numel())
        start = INITS[settings.init].draw(setup.source, plan[0].s, u, z).view(-1, *score.shape)
        path = SharedPath(fine, groups, StepNoise(SEED, indices, score.shape))
        denoiser = _denoiser(score.model, None, lambda: None)
        parts.append(drive(make_kernel(settings), denoiser, start, plan, path).x)
    return torch.cat(parts)[:samples]


def measured(setup: Setup, x: Tensor) -> dict[str, Measured]:
    return measure(extract(setup.extractor, to_pixels(x.nan_to_num(0.0))[0]), setup.reference)


def compare(folder: Path, text: str, samples: int) -> None:
    name, _, literal = job(text)
    setup = setup_for(name, literal, samples)
    x = literal_samples(folder, setup, literal, samples)
    run = measured(setup, x)
    print(f"{text}: literal, {literal.nfe} evaluations: " + spelt(run))
    for order, levels in SPENT:
        settings = standing_for(literal, order, levels)
        own = on_the_literal_path(setup, settings, samples)
        found = measured(setup, own)
        off = (own.log() - x.abs().log()).pow(2).mean().sqrt()
        differences = {m: paired_difference(found[m], run[m]) for m in ("kid", "fid")}
        apart = ", ".join(f"{m} {d.value:+.4f} ± {d.error:.4f}" for m, d in differences.items())
        print(f"  order {order}, {levels}: {spelt(found)}; {apart}; rms {off:.4f}", flush=True)


def spelt(values: dict[str, Measured]) -> str:
    estimates = ((name, values[name].estimate) for name in ("kid", "fid"))
    return ", ".join(f"{name} {each.value:.4f} ± {each.error:.4f}" for name, each in estimates)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    for text in sys.argv[3:]:
        compare(Path(sys.argv[1]), text, int(sys.argv[2]))
