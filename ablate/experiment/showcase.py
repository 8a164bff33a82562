"""A bundle sampled without tuning: one picture and a few numbers, beside the baselines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ablate.core.workspace import Workspace
from ablate.data.contact_sheet import save_grid
from ablate.data.tensor_cache import cache_folder
from ablate.experiment.baselines import baselines
from ablate.experiment.cell import CellResult, run_cell
from ablate.experiment.executors.place import Place
from ablate.experiment.portable import portable
from ablate.experiment.prepare import Setup, prepare
from ablate.experiment.shard_files import ShardFiles, draw_shards
from ablate.experiment.shards import result_of_shards, shard_jobs
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
    return _shown(setup, run_cell(setup, settings, seed, progress), picture)


def showcase_in_shards(
    workspace: Workspace,
    bundle: str,
    settings: Settings,
    samples: int,
    seed: int,
    picture: Path,
    place: Place,
    progress: Callable[[int], None] = lambda samples: None,
) -> Showcase:
    """The same, drawn in shards wherever `place` says. A killed command continues from those that
    are finished."""
    setup = setup_of_one(workspace, bundle, settings, samples, seed, place.device)
    files = ShardFiles(cache_folder(), setup, place.threads)
    jobs = shard_jobs(settings, seed, samples, setup.score_model.shape)
    with place.executor(portable(setup)) as executor:
        whole = draw_shards(jobs, executor, files, progress)
    shown = _shown(setup, result_of_shards(setup, whole), picture)
    files.remove()
    return shown


def _shown(setup: Setup, result: CellResult, picture: Path) -> Showcase:
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
