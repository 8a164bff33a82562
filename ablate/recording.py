"""What a study and its cells leave in the record: documents, tags, pictures, features, numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from ablate.lab import Lab
from ablate.metrics.reference import DISTANCES
from ablate.pictures import save_grid
from ablate.provenance import provenance
from ablate.tracking import StudyRun, Tracker
from ablate.trial import KEPT_IMAGES, CellResult


def open_record(tracker: Tracker, lab: Lab, tags: Mapping[str, str]) -> StudyRun:
    study, protocol = lab.study, lab.reference.protocol
    tags = {**tags, "ablate.budget": study.budget, "mlflow.note.content": study.question}
    measured = {name: {**protocol._asdict(), "hash": protocol.hash} for name in DISTANCES}
    measured |= {f"nn_{space.name}": space.protocol() for space in lab.neighbourhood.spaces}
    documents = {"study.json": study.model_dump(mode="json"), "protocols.json": measured}
    return tracker.open_study(study.name, lab.key, tags, documents)


def tags_of(lab: Lab) -> dict[str, str]:
    """What every run of a study says of where it comes from and how it was measured."""
    return provenance(lab.device) | {
        "ablate.hash": lab.identity,
        "ablate.bundle": f"{lab.bundle.card.name} {lab.bundle.hash}",
        "protocol.fid": lab.reference.protocol.hash,
        "protocol.kid": lab.reference.protocol.hash,
    }


def _panel(lab: Lab, result: CellResult) -> Tensor | None:
    if not result.neighbours:
        return None
    return lab.neighbourhood.panel(result.drawing.pixels, result.neighbours)


def record_files(
    record: StudyRun, run_id: str, trial_run: str | None, result: CellResult, lab: Lab
) -> None:
    """A cell's pictures and features, before its metrics and its status. A trial shows its first
    seed's."""
    neighbours = _panel(lab, result)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kept = result.drawing.pixels[:KEPT_IMAGES]
        save_grid(folder / "samples.png", kept, columns=16)
        strip = result.drawing.strip
        save_grid(folder / "trajectory.png", strip.flatten(0, 1), columns=strip.shape[1])
        shown = ["samples.png"]
        if neighbours is not None:
            shown.append("neighbours.png")
            columns = neighbours.shape[1]
            save_grid(folder / "neighbours.png", neighbours.flatten(0, 1), columns)
        np.savez_compressed(folder / "images.npz", images=kept.numpy())
        np.savez_compressed(folder / "features.npz", features=result.features.numpy())
        if trial_run is not None:
            for name in shown:
                record.log_picture(trial_run, folder / name)
        record.log_files(run_id, folder)
