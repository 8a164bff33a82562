"""Do exponential integrators stand for the literal runs of the paper's samplers?

    python -m tests.benchmarks.faithful FOLDER SAMPLES JOB... [> table.md]

A job is as for `literal_runs`, whose samples are taken from FOLDER (and drawn if they are not
there). Each literal run is compared with exponential ones on the same Brownian path. Prints a
Markdown table: KID in the features of the dataset's classifier with its standard error, and for
each number of evaluations the difference from the literal run with its paired standard error. A
difference agrees if it is below two of these, or below 5 % of the literal KID; others are in bold.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from ablate.data.datasets import to_pixels
from ablate.diffusion.inits import INITS
from ablate.experiment.prepare import Setup
from ablate.generate.guidance import make_denoiser
from ablate.generate.plans import evaluated, literal_steps, make_kernel, make_plan
from ablate.generate.settings import Settings
from ablate.metrics.estimate import Estimate, Measured, paired_difference
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.reference import measure
from ablate.samplers.drive import drive
from ablate.samplers.noise import StepNoise, start_numbers
from ablate.samplers.shared_path import SharedPath
from tests.benchmarks.literal_runs import BATCH, SEED, job, literal_samples, setup_for

SPENT = ((1, 20), (2, 12), (2, 16), (2, 20), (2, 25))
"""Orders and evaluations of the exponential runs."""

KNOBS = ("sampler", "init", "chi", "r", "L", "n")


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
    fine, parts = literal_steps(settings), []
    told = bool(score.classes) and not settings.unlabelled
    init = INITS[settings.init]
    for first in range(0, samples, BATCH):
        indices = range(first, first + BATCH)
        u, z = start_numbers(SEED, indices, setup.bundle.moments.everything.mean.numel())
        start = init.draw(setup.source, plan[0].s, u, z).view(-1, *score.shape)
        labels = init.labels(setup.source, score.classes, u) if told else None
        denoiser = make_denoiser(score, settings, labels)
        path = SharedPath(fine, evaluated(settings, fine), StepNoise(SEED, indices, score.shape))
        parts.append(drive(make_kernel(settings), denoiser, start, plan, path).x)
    return torch.cat(parts)[:samples]


def measured(setup: Setup, x: Tensor) -> dict[str, Measured]:
    return measure(extract(setup.extractor, to_pixels(x.nan_to_num(0.0))[0]), setup.reference)


def spelt(values: dict[str, Measured]) -> str:
    estimates = ((name, values[name].estimate) for name in ("kid", "fid"))
    return ", ".join(f"{name} {each.value:.4f} ± {each.error:.4f}" for name, each in estimates)


def agrees(apart: Estimate, literal: float) -> bool:
    return abs(apart.value) < max(2 * apart.error, 0.05 * abs(literal))


def row(folder: Path, text: str, samples: int) -> str:
    """A literal run and the exponential ones, as a row of the table."""
    name, _, literal = job(text)
    setup = setup_for(name, literal, samples)
    run = measured(setup, literal_samples(folder, setup, literal, samples))["kid"]
    knobs = literal.knobs()
    cells = [name, *(str(knobs.get(knob, "")) for knob in KNOBS), str(literal.nfe)]
    cells.append(f"{run.value:.4f} ± {run.estimate.error:.4f}")
    for order, levels in SPENT:
        x = on_the_literal_path(setup, standing_for(literal, order, levels), samples)
        apart = paired_difference(measured(setup, x)["kid"], run)
        cell = f"{apart.value:+.4f} ± {apart.error:.4f}"
        cells.append(cell if agrees(apart, run.value) else f"**{cell}**")
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    spent = (f"order {order}, {levels}" for order, levels in SPENT)
    heads = ["bundle", *KNOBS, "evaluations", "literal KID", *spent]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for text in sys.argv[3:]:
        print(row(Path(sys.argv[1]), text, int(sys.argv[2])), flush=True)
