"""The result of an evaluation, as an object, as JSON and as runs in MLflow."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ablate.core.provenance import provenance
from ablate.core.workspace import Workspace
from ablate.data.contact_sheet import save_grid
from ablate.experiment.image_sets import ImageSet
from ablate.metrics.copies import Copies
from ablate.metrics.estimate import Estimate, Measured, paired_difference
from ablate.metrics.protocol import Protocol
from ablate.results import NEIGHBOURS, SAMPLES, require_same
from ablate.tracking.writer import Tracker

EVALUATION = "evaluation.json"
"""Artifact of an evaluation's run: `Evaluation.as_json`."""


class Evaluation(NamedTuple):
    """The metrics of one set of samples against a reference."""

    samples: ImageSet
    measured: dict[str, Measured]  # by name without N
    protocol: Protocol
    knobs: Mapping[str, Any]  # the settings that drew the samples; empty if they came as files
    neighbours: dict[str, Copies]  # by space; empty if not asked for
    panel: Tensor | None  # the samples nearest to training images, beside these

    def estimates(self) -> dict[str, Estimate]:
        """Estimates by a name that includes N, such as fid_n1024."""
        count = len(self.samples.pixels)
        return {f"{name}_n{count}": each.estimate for name, each in self.measured.items()}

    def as_json(self) -> dict[str, Any]:
        """Everything but the images, for programs."""
        near = {space: _copies_as_json(copies) for space, copies in self.neighbours.items()}
        return {
            "samples": self.samples.name,
            "against": self.protocol.reference,
            "metrics": _as_json(self.estimates()),
            "protocol": {**self.protocol._asdict(), "hash": self.protocol.hash},
            "knobs": dict(self.knobs),
            "neighbours": near,
        }

    def numbers(self) -> dict[str, float]:
        """Values and standard errors under the names that MLflow gets."""
        metrics: dict[str, float] = {}
        for name, estimate in self.estimates().items():
            metrics |= {name: estimate.value, f"{name}.error": estimate.error}
        for space, copies in self.neighbours.items():
            metrics |= copies.values(space)
        return metrics


def _as_json(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {
        name: {"value": each.value, "error": each.error, "interval": list(each.interval)}
        for name, each in estimates.items()
    }


def _copies_as_json(copies: Copies) -> dict[str, Any]:
    """A search for copies; C_T and AuthPct only of the whole training set."""
    found = _as_json({name: each.estimate for name, each in copies.measured().items()})
    if copies.verdict is not None:
        found["c_t"] = copies.verdict.c_t
    return found | {"suspects": copies.suspects, "searched": copies.searched}


def differences(first: Evaluation, second: Evaluation) -> dict[str, Estimate]:
    """First less second, for samples drawn from the same noise, by the names of the first."""
    require_same(first.protocol._asdict(), second.protocol._asdict())
    return {
        name: paired_difference(mine, second.measured[metric])
        for (metric, mine), name in zip(first.measured.items(), first.estimates(), strict=True)
    }


def comparison(first: Evaluation, second: Evaluation) -> dict[str, Any]:
    """The first as JSON, with the second and their difference under `versus`."""
    difference = {"difference": _as_json(differences(first, second))}
    return first.as_json() | {"versus": second.as_json() | difference}


def record(evaluation: Evaluation, workspace: Workspace, device: str) -> None:
    """Write an evaluation to MLflow: every number, its protocol, and pictures."""
    tracker, document = Tracker(workspace), evaluation.as_json()
    protocol = {f"protocol.{key}": str(value) for key, value in document["protocol"].items()}
    params = {"samples": evaluation.samples.name, "against": evaluation.protocol.reference}
    run_id = tracker.open_evaluation(evaluation.samples.name, provenance(device) | protocol)
    with tracker.closing(run_id), tempfile.TemporaryDirectory() as scratch:
        tracker.log(run_id, params=params | dict(evaluation.knobs))
        tracker.log(run_id, evaluation.numbers())
        folder = Path(scratch)
        save_grid(folder / SAMPLES, evaluation.samples.pixels[:64], columns=16)
        if (panel := evaluation.panel) is not None:
            save_grid(folder / NEIGHBOURS, panel.flatten(0, 1), panel.shape[1])
        for picture in sorted(folder.iterdir()):
            tracker.log_picture(run_id, picture)
        (folder / EVALUATION).write_text(json.dumps(document, indent=1))
        tracker.client.log_artifact(run_id, str(folder / EVALUATION))
