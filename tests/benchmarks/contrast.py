"""What one knob changes in a study, all others being equal, with paired errors.

    python -m tests.benchmarks.contrast [--root FOLDER] KNOB STUDY...

Trials of the quick budget that differ in KNOB alone are compared with the one of its first value:
the difference of KID over all seeds, in pairs of samples from the same noise, and its standard
error from the influence of every image.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import ablate
from ablate.core.workspace import Workspace
from ablate.experiment.early_stopping import difference
from ablate.experiment.prepare import prepare
from ablate.results import FEATURES, Trial, Value
from ablate.study.find import find, read
from ablate.tracking.reader import Reader

FOLLOWING = {"delta", "nfe"}
"""Parameters that follow from the others."""


def others(trial: Trial, knob: str) -> tuple[tuple[str, Value], ...]:
    left = {k: v for k, v in trial.params.items() if k != knob and k not in FOLLOWING}
    return tuple(sorted(left.items()))


def features(reader: Reader, trial: Trial) -> dict[int, Tensor]:
    """Seed -> features of the samples."""
    found = {}
    for cell in trial.cells:
        file = reader.fetch(cell.run_id, FEATURES)
        found[cell.seed] = torch.from_numpy(np.load(file)["features"])
    return found


def compare(root: Path, name: str, knob: str) -> None:
    workspace = Workspace(root.resolve())
    setup = prepare(read(find(workspace, name), "quick", None), workspace)
    reader, groups = Reader(workspace), defaultdict(list)
    for trial in ablate.load_results(name, "quick", root=root).results.trials:
        if trial.state == "complete" and knob in trial.params:
            groups[others(trial, knob)].append(trial)
    for same, trials in groups.items():
        if len(trials) < 2:
            continue
        varying = {k: v for k, v in same if any((k, v) not in other for other in groups)}
        first, *rest = sorted(trials, key=lambda trial: trial.params[knob])
        values = features(reader, first)
        print(f"{name} {varying}: {knob} = {first.params[knob]} has kid {first.metrics['kid']:.4f}")
        for trial in rest:
            gap = difference(features(reader, trial), values, "kid", setup.reference)
            print(
                f"  {knob} = {trial.params[knob]}: {gap.value:+.4f} ± {gap.error:.4f}", flush=True
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("knob")
    parser.add_argument("studies", nargs="+")
    given = parser.parse_args()
    for study in given.studies:
        compare(given.root, study, given.knob)
