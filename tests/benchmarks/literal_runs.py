"""Literal runs of the paper's samplers on 1,000 levels, drawn once and kept in a folder.

    python -m tests.benchmarks.literal_runs FOLDER JOB...

A job is `BUNDLE:SAMPLES:KNOB=VALUE,…`. Batches of 64 samples are saved as they are finished, so a
run that was killed continues; `faithful` compares exponential integrators with what is here.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ablate.core.workspace import Workspace
from ablate.experiment.prepare import Setup
from ablate.experiment.showcase import setup_of_one
from ablate.generate.draw import draw_batch
from ablate.generate.settings import Settings

BATCH, SEED = 64, 0
PAPER: dict[str, Any] = {"sigma": 0.8, "grid": "uniform", "levels": 1000}
"""The paper's noise and levels."""


def literal_settings(**knobs: Any) -> Settings:
    return Settings.model_validate(PAPER | knobs)


def setup_for(bundle: str, settings: Settings, samples: int) -> Setup:
    return setup_of_one(Workspace(Path()), bundle, settings, samples, SEED, "cpu")


def literal_samples(folder: Path, setup: Setup, settings: Settings, samples: int) -> Tensor:
    """x of the first samples of a literal run; batches in the folder are not drawn again."""
    knobs = settings.model_dump_json(exclude_none=True)
    key = hashlib.sha256(f"{setup.bundle.hash} {knobs} {SEED}".encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for first in range(0, samples, BATCH):
        file = folder / f"{setup.bundle.card.name}-{key}-{first}.safetensors"
        if not file.exists():
            score, source = setup.bundle.score_model, setup.source
            drawn = draw_batch(score, source, settings, SEED, range(first, first + BATCH))
            partial = file.with_suffix(".part")
            save_file({"x": drawn.x.contiguous()}, partial, {"knobs": knobs})
            partial.rename(file)
        parts.append(load_file(file)["x"])
    return torch.cat(parts)[:samples]


def job(text: str) -> tuple[str, int, Settings]:
    bundle, samples, knobs = text.split(":")
    pairs = (pair.split("=") for pair in knobs.split(","))
    return bundle, int(samples), literal_settings(**dict(pairs))


if __name__ == "__main__":
    for text in sys.argv[2:]:
        name, count, wanted = job(text)
        literal_samples(Path(sys.argv[1]), setup_for(name, wanted, count), wanted, count)
        print(text, flush=True)
