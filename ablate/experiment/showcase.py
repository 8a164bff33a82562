"""A bundle sampled without tuning: one picture and a few numbers, beside the baselines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ablate.core.workspace import Workspace
from ablate.data.contact_sheet import save_grid
from ablate.experiment.baselines import baselines
from ablate.experiment.cell import run_cell
from ablate.experiment.prepare import Setup, prepare
from ablate.generate.settings import Settings
from ablate.study.definition import Study
from ablate.study.file import objective


class Showcase(NamedTuple):
    """The numbers of a bundle's samples and of the baselines."""

    metrics: dict[str, float]
    baselines: dict[str, dict[str, float]]
    protocol: dict[str, object]


def showcase(
    workspace: Workspace,
    bundle: str,
    settings: Settings,
    samples: int,
    seed: int,
    picture: Path,
    device: str,
    progress: Callable[[], None] = lambda: None,
) -> Showcase:
    """Draw and measure samples of a bundle, and save the first 64 as a picture."""
    setup = setup_of_one(workspace, bundle, settings, samples, seed, device)
    result = run_cell(setup, settings, seed, progress)
    picture.parent.mkdir(parents=True, exist_ok=True)
    save_grid(picture, result.drawing.pixels[:64], columns=16)
    return Showcase(result.metrics, baselines(setup), setup.reference.protocol._asdict())


def setup_of_one(
    workspace: Workspace, bundle: str, settings: Settings, samples: int, seed: int, device: str
) -> Setup:
    """The setup of a study with one configuration: it is checked and measured as any other."""
    study = Study(
        name="showcase",
        budget="quick",
        question="What can this bundle do?",
        bundle=bundle,
        method="grid",
        seed=0,
        seeds=(seed,),
        samples=samples,
        trials=1,
        reference="train",
        objectives=(objective("kid"),),
        fixed=settings.model_dump(exclude_none=True, exclude={"training"}),
        search={},
    )
    return prepare(study, workspace, device)
