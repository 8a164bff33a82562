"""Are the low-rank moments of a bundle as good a start as full covariances?

    ABLATE_DATA=… python -m tests.benchmarks.low_rank [BUNDLE] [SAMPLES]

Class Gaussians with the bundle's directions and isotropic tail, and with the full covariance of
each class, each followed by the few-step solver with the same noise; FID and KID in the dataset's
classifier features, over three seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean, stdev

from ablate.core.workspace import Workspace
from ablate.data.datasets import load, to_unit_interval_plus_one
from ablate.diffusion.inits import Source
from ablate.diffusion.moments import Moments, fit_gaussian
from ablate.experiment.cell import run_cell
from ablate.experiment.showcase import setup_of_one
from ablate.generate.presets import few_step_settings
from ablate.models import bundle as bundles

SEEDS = (0, 1, 2)


def with_full_covariances(moments: Moments, dataset: str) -> Moments:
    images = load(dataset).train
    y = to_unit_interval_plus_one(images.pixels).log().flatten(1)
    full = [
        fit_gaussian(y[images.labels == label], y.shape[1]).to(y.dtype)
        for label in range(len(moments.classes))
    ]
    return moments._replace(classes=full)


DEFAULTS = ("fashion", "512")
"""Of the arguments: the bundle and the number of samples."""


def main(name: str, samples: int) -> None:
    workspace = Workspace(Path())
    card = bundles.read_card(bundles.find(name, workspace))
    settings = few_step_settings(10, (card.s_min, card.s_max))
    setup = setup_of_one(workspace, name, settings, samples, 0, "cpu")
    starts = {
        "as in the bundle": setup.bundle.moments,
        "full covariances": with_full_covariances(setup.bundle.moments, card.dataset),
    }
    for start, moments in starts.items():
        started = setup._replace(source=Source(moments))
        cells = [run_cell(started, settings, seed) for seed in SEEDS]
        for metric in ("fid", "kid"):
            values = [cell.metrics[metric] for cell in cells]
            print(f"{name}, {start}: {metric} {mean(values):.4f}, spread {stdev(values):.4f}")


if __name__ == "__main__":
    name, count = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]
    main(name, int(count))
