"""When checkpoints are due: by the clock, or by the number of steps."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from ablate.data.datasets import Dataset
from ablate.models.recipe import Recipe
from ablate.training import clock
from ablate.training.loop import train


def test_checkpoints_are_due_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each three minutes, counted from the last; steps of 50 seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    due, steps = clock.every(180.0), []
    for step in range(1, 13):
        now[0] += 50
        steps += [step] if due(step) else []
    assert steps == [4, 8, 12]


def test_checkpoints_can_be_due_by_steps(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    recipe = tiny_recipe.model_copy(update={"steps": 5, "checkpoint_every": 2})
    seen = []

    def look(step: int, loss: float) -> None:
        path = tmp_path / "a.pt"
        seen.append(torch.load(path, weights_only=True)["step"] if path.exists() else 0)

    train(recipe, digits, tmp_path / "a.pt", progress=look)
    assert seen == [0, 0, 2, 2, 4]
    assert recipe.identity() == tiny_recipe.model_copy(update={"steps": 5}).identity()


def test_training_time_adds_up_over_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of an hour, the first killed half a minute after it last wrote; the time between
    them does not count. A file with something else in it counts as none."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    path = tmp_path / "a.seconds"
    first = clock.TrainingTime(path)
    now[0] += 3570
    first.after_step(1)
    now[0] += 10
    first.after_step(2)  # not due yet
    now[0] += 20 + 5000
    second = clock.TrainingTime(path)
    now[0] += 3600
    assert second.hours == pytest.approx((3570 + 3600) / 3600)
    second.write()
    assert clock.TrainingTime(path).hours == pytest.approx((3570 + 3600) / 3600)
    path.write_text("an hour", encoding="utf-8")
    assert clock.TrainingTime(path).hours == 0
    second.remove()
    assert not path.exists()
