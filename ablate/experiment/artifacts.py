"""What the record keeps of a study and its cells: documents, tags, pictures, features."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ablate.core.provenance import provenance
from ablate.data.contact_sheet import enlarged, save_grid
from ablate.diffusion.inits import INITS
from ablate.experiment.also import also_protocols
from ablate.experiment.cell import KEPT_IMAGES, CellResult
from ablate.experiment.coarse_grids import coarse_grids
from ablate.experiment.prepare import Setup
from ablate.generate.coarseness import coarseness
from ablate.generate.settings import Settings
from ablate.metrics.protocol import Protocol
from ablate.metrics.registry import METRICS, measured_in_studies
from ablate.results import (
    FEATURES,
    IMAGES,
    NEIGHBOURS,
    PROTOCOLS,
    SAMPLES,
    STUDY,
    TRAJECTORY,
    VOCABULARY,
)
from ablate.samplers.registry import SAMPLERS
from ablate.tracking.inputs import Inputs
from ablate.tracking.studies import open_study
from ablate.tracking.study_note import NOTE
from ablate.tracking.study_run import StudyRun
from ablate.tracking.vocabulary import BUDGET, COARSENESS, CONFIRMS, WARNING
from ablate.tracking.writer import Tracker

FIRST_SAMPLES, SHOWN = "first-samples.png", 8
"""The first picture of a trial's run, and how many samples it has."""

BUNDLE = "ablate.bundle"
"""Tag with the name and hash of the bundle."""

SIDE = 64
"""Pixels that an image has at least in that picture."""


def open_record(tracker: Tracker, setup: Setup, tags: Mapping[str, str]) -> StudyRun:
    """Open the study's run, with its documents."""
    study, protocol = setup.study, setup.reference.protocol
    tags = {**tags, BUDGET: study.budget, NOTE: study.question}
    if (warning := coarse_grids(study)) is not None:
        tags |= {WARNING: warning}
    how = {**protocol._asdict(), "hash": protocol.hash}
    measured: dict[str, object] = dict.fromkeys(measured_in_studies(), how)
    measured |= {f"nn_{space.name}": space.protocol() for space in setup.neighbourhood.spaces}
    confirm = study.confirm
    for name, each in also_protocols(
        setup, confirm.samples or study.samples, len(confirm.seeds)
    ).items():
        measured[name] = {**each._asdict(), "hash": each.hash}
    own = [*(each.own for each in SAMPLERS.values()), *(each.own for each in INITS.values())]
    vocabulary = {
        "labels": {name: metric.label for name, metric in METRICS.items()},
        "leaking": [name for name, init in INITS.items() if init.leaks_data],
        "knobs": {knob.name: knob.about for knobs in own for knob in knobs},
    }
    documents = {
        STUDY: study.model_dump(mode="json"),
        PROTOCOLS: measured,
        VOCABULARY: vocabulary,
    }
    params = {
        **study.fixed,
        "method": study.method,
        "bundle": setup.bundle.card.name,
        "samples": study.samples,
        "seeds": len(study.seeds),
    }
    return open_study(tracker, study.name, setup.key, tags, documents, params, inputs_of(setup))


def inputs_of(setup: Setup) -> Inputs:
    """What every trial uses: the images that it is compared with, and the bundle."""
    card, protocol = setup.bundle.card, setup.reference.protocol
    return Inputs(
        dataset=protocol.reference,
        digest=protocol.reference_hash,
        images=protocol.reference_count,
        bundle=card.name,
        bundle_hash=setup.bundle.hash,
        about={
            "dataset": card.dataset,
            "s_min": str(card.s_min),
            "s_max": str(card.s_max),
            "licence": card.licence,
            "objective": card.recipe.objective,
        },
    )


def tags_of(setup: Setup) -> dict[str, str]:
    """Tags of every run of a study: where its numbers come from and how they were measured."""
    about = {
        "ablate.hash": setup.identity,
        BUNDLE: f"{setup.bundle.card.name} {setup.bundle.hash}",
    }
    return provenance(setup.device) | about | _protocol_tags(setup.reference.protocol)


def tags_of_confirmation(setup: Setup, number: int) -> dict[str, str]:
    """Tags, beside those of every run, of one that measures trial `number` again."""
    confirm, protocol = setup.study.confirm, setup.reference.protocol
    samples = confirm.samples or protocol.samples
    protocol = protocol._replace(samples=samples, seeds=len(confirm.seeds))
    return {CONFIRMS: str(number)} | _protocol_tags(protocol)


def _protocol_tags(protocol: Protocol) -> dict[str, str]:
    return {"protocol.fid": protocol.hash, "protocol.kid": protocol.hash}


def tags_of_trial(settings: Settings, classes: int) -> dict[str, str]:
    """Tags of a trial's run beside those of every run: what the network is told of each sample's
    class, and how coarse its literal steps are."""
    told = {"ablate.told": settings.told(classes)}
    found = coarseness(settings)
    return told if found is None else told | {COARSENESS: json.dumps(found._asdict())}


def _panel(setup: Setup, result: CellResult) -> Tensor | None:
    if result.panel is not None or not result.neighbours:
        return result.panel
    return setup.neighbourhood.panel(result.drawing.pixels, result.neighbours)


def record_files(
    record: StudyRun, run_id: str, trial_run: str | None, result: CellResult, setup: Setup
) -> None:
    """Write a cell's pictures, images and features; its metrics and status follow. With `trial_run`
    the trial's run gets the pictures, too."""
    neighbours = _panel(setup, result)
    with tempfile.TemporaryDirectory() as scratch:
        folder, kept = Path(scratch, "cell"), result.drawing.pixels[:KEPT_IMAGES]
        folder.mkdir()
        save_grid(folder / SAMPLES, kept, columns=16)
        strip = result.drawing.strip
        save_grid(folder / TRAJECTORY, strip.flatten(0, 1), columns=strip.shape[1])
        if neighbours is not None:
            columns = neighbours.shape[1]
            save_grid(folder / NEIGHBOURS, neighbours.flatten(0, 1), columns)
        images: dict[str, Any] = {"images": kept.numpy()}
        if (labels := result.drawing.labels) is not None:
            images["labels"] = labels[:KEPT_IMAGES].numpy()
        np.savez_compressed(folder / IMAGES, **images)
        np.savez_compressed(folder / FEATURES, features=result.features.numpy())
        if trial_run is not None:
            first = Path(scratch, FIRST_SAMPLES)
            save_grid(first, enlarged(kept[:SHOWN], SIDE), columns=SHOWN)
            _show(record, trial_run, [first, folder / NEIGHBOURS], folder / SAMPLES)
        record.log_files(run_id, folder)


def _show(record: StudyRun, trial_run: str, pictures: list[Path], sheet: Path) -> None:
    """Write the pictures of a trial. Every trial draws from the same noise, so the UI compares
    their first samples one by one: that picture's name comes before the others'."""
    for picture in filter(Path.exists, pictures):
        record.log_picture(trial_run, picture)
    record.log_file(trial_run, sheet)
