"""A process of a distributed training:
`torchrun -m tests.training.worker RECIPE FOLDER STOP [DEVICE]`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from ablate.data.datasets import load
from ablate.models.recipe import Recipe
from ablate.training import distributed
from ablate.training.loop import StepReport, train
from ablate.training.options import Options


def gloo_threads() -> list[str]:
    """Names of this process's threads that are gloo's; none where there is no /proc."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").glob("*")]
    return [name for name in names if "gloo" in name]


def train_in_group(recipe: Recipe, folder: Path, stop: int, device: str = "cpu") -> None:
    """Train with the other processes; exits after step `stop`. Reports of the steps, weights and
    the threads that are left at the end go to files by rank."""
    torch.set_num_threads(1)
    try:
        with distributed.process_group(device) as where:
            _train(recipe, folder, stop, where)
            assert gloo_threads() or device != "cpu" or sys.platform != "linux"
    finally:
        with (folder / f"threads-{os.environ['RANK']}.txt").open("a") as file:
            print(*gloo_threads(), file=file)


def _train(recipe: Recipe, folder: Path, stop: int, device: str) -> None:
    rank, size = distributed.rank(), distributed.world_size()

    def watch(report: StepReport) -> None:
        with (folder / f"{rank}.txt").open("a") as file:
            print(json.dumps([size, len(report.losses), report.step, report.loss]), file=file)
        if report.step == stop:
            raise SystemExit(0)

    options = Options(due=lambda step: step % 3 == 0)
    checkpoint = folder / f"of-{rank}.pt"
    trained = train(recipe, load("digits"), checkpoint, device, options=options, watch=watch)
    torch.save(trained.model.cpu().net.state_dict(), folder / f"weights-{rank}.pt")


if __name__ == "__main__":
    given, place, last, *on = sys.argv[1:]
    train_in_group(Recipe.model_validate_json(given), Path(place), int(last), *on)
