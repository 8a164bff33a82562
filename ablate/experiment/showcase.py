"""What a bundle can do, in one picture and a few numbers: sampled without tuning, beside the
baselines."""

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
    setup = setup_of_one(workspace, bundle, settings, samples, seed, device)
    result = run_cell(setup, settings, seed, progress)
    picture.parent.mkdir(parents=True, exist_ok=True)
    save_grid(picture, result.drawing.pixels[:64], columns=16)
    return Showcase(result.metrics, baselines(setup), setup.reference.protocol._asdict())


def setup_of_one(
    workspace: Workspace, bundle: str, settings: Settings, samples: int, seed: int, device: str
) -> Setup:
    """A study of the one configuration, so that it is checked and measured as any other."""
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
        fixed=settings.model_dump(exclude_none=True),
        search={},
    )
    return prepare(study, workspace, device)
