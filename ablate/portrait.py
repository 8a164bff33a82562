"""What a bundle can do, in one picture and a few numbers: sampled without tuning, beside the
yardsticks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ablate.home import Home
from ablate.lab import Lab, prepare, yardsticks
from ablate.pictures import save_grid
from ablate.settings import DEFAULT_FLOOR, Settings
from ablate.spec import Objective, Study
from ablate.trial import run_cell


class Portrait(NamedTuple):
    metrics: dict[str, float]
    yardsticks: dict[str, dict[str, float]]
    protocol: dict[str, object]


SIGMA = 0.8
"""Where sampling starts if nothing else is said: the paper's."""


def few_step_settings(
    levels: int, known: tuple[float, float], sigma: float | None = None
) -> Settings:
    """Second-order probability flow on Karras' levels from Gaussians fitted to each class.

    For a network that knows the noise levels from `known[0]` to `known[1]`.
    """
    lowest, highest = known
    return Settings.model_validate(
        {
            "sampler": "pf-heun",
            "init": "class-gaussian",
            "sigma": min(SIGMA, highest) if sigma is None else sigma,
            "s_min": max(DEFAULT_FLOOR, lowest),
            "grid": "karras",
            "levels": levels,
        }
    )


def portrait(
    home: Home,
    bundle: str,
    settings: Settings,
    samples: int,
    seed: int,
    picture: Path,
    device: str,
    progress: Callable[[], None] = lambda: None,
) -> Portrait:
    lab = lab_of_one(home, bundle, settings, samples, seed, device)
    result = run_cell(lab, settings, seed, progress)
    picture.parent.mkdir(parents=True, exist_ok=True)
    save_grid(picture, result.drawing.pixels[:64], columns=16)
    return Portrait(result.metrics, yardsticks(lab), lab.reference.protocol._asdict())


def lab_of_one(
    home: Home, bundle: str, settings: Settings, samples: int, seed: int, device: str
) -> Lab:
    """A study of the one configuration, so that it is checked and measured as any other."""
    study = Study(
        name="portrait",
        budget="quick",
        question="What can this bundle do?",
        bundle=bundle,
        method="grid",
        seed=0,
        seeds=(seed,),
        samples=samples,
        trials=1,
        reference="train",
        objectives=(Objective(metric="kid"),),
        fixed=settings.model_dump(exclude_none=True),
        search={},
    )
    return prepare(study, home, device)
