"""Checkpoints: when they are written, what is refused, and that a resumed training is the same."""

from __future__ import annotations

import os
import pickle
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset, load
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.models import bundle as bundles
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.training import state
from ablate.training.loop import train
from ablate.training.options import Options
from ablate.training.pack import make_bundle
from ablate.training.step import (
    TrainableModel,
    TrainingImages,
    take_step,
)
from tests.support.commands import fork_server


def train_and_die(text: str, folder: Path, fatal: str) -> None:
    """Train, in a forked process, to die by SIGKILL at the step `fatal` or in the middle of a
    checkpoint ("save"); the steps go to a file."""
    torch.set_num_threads(1)
    steps = folder / "steps.txt"
    steps.write_text("")

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def progress(step: int, loss: float) -> None:
        with steps.open("a") as file:
            print(step, file=file)
        if fatal == str(step):
            die()

    def half_a_checkpoint(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        die()

    if fatal == "save":
        patch.object(torch, "save", half_a_checkpoint).start()
    options = Options(due=lambda step: step % 4 == 0)
    recipe, extractor = Recipe.model_validate_json(text), load_extractor(shipped_path("digits"))
    parts = recipe, load("digits"), extractor, folder / "tiny.pt", folder / "tiny.safetensors"
    make_bundle("tiny", *parts, progress=progress, options=options)


def steps_and_end(recipe: Recipe, folder: Path, fatal: str) -> tuple[list[int], int | None, bool]:
    """(the steps that a process took, its exit code, whether there is a bundle after it)."""
    arguments = recipe.model_dump_json(), folder, fatal
    process = fork_server().Process(target=train_and_die, args=arguments)
    process.start()
    process.join(120)
    steps = [int(step) for step in (folder / "steps.txt").read_text().split()]
    return steps, process.exitcode, (folder / "tiny.safetensors").exists()


def equal(a: Any, b: Any) -> bool:
    """Whether nested checkpoints are equal to the last bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(equal(*pair) for pair in zip(a, b, strict=True))
    return torch.equal(a, b) if isinstance(a, Tensor) else a == b


def test_a_killed_training_ends_as_if_it_had_not_been(
    tiny_bundle: Path, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    """Killed between checkpoints, killed again while writing one, then left alone: the bundle has
    the bytes of one made without interruption, in another process and with other checkpoints, and
    so has the float32 state behind it (average, optimiser and all)."""
    assert [steps_and_end(tiny_recipe, tmp_path, fatal) for fatal in ("6", "save", "")] == [
        (list(range(1, 7)), -signal.SIGKILL, False),
        (list(range(5, 9)), -signal.SIGKILL, False),
        (list(range(5, 16)), 0, True),
    ]
    states = [
        torch.load(folder / "tiny.pt", weights_only=True)
        for folder in (tmp_path, tiny_bundle.parent)
    ]
    assert states[0]["step"] == 15
    assert equal(*states)
    assert (tmp_path / "tiny.safetensors").read_bytes() == tiny_bundle.read_bytes()


def test_a_finished_training_is_not_run_again(
    digits: Dataset, tiny_recipe: Recipe, tiny_bundle: Path
) -> None:
    seen = []
    checkpoint = tiny_bundle.with_suffix(".pt")
    done = train(tiny_recipe, digits, checkpoint, progress=lambda step, _: seen.append(step))
    assert seen == []
    for name, value in bundles.read(tiny_bundle).model.net.state_dict().items():
        assert torch.equal(value, done.model.net.state_dict()[name].half().float()), name


def refusal(recipe: Recipe, dataset: Dataset, checkpoint: Path) -> str:
    before = checkpoint.read_bytes()
    with pytest.raises(UserError) as caught:
        train(recipe, dataset, checkpoint)
    assert checkpoint.read_bytes() == before  # it may be somebody's work
    text = str(caught.value)
    assert str(checkpoint) in text
    assert "remove" in text
    assert "\n" not in text
    return text


CHANGES = {
    "rate": 2e-3,
    "steps": 16,
    "seed": 1,
    "gamma": 16.0,
    "net": Net(widths=(8,), blocks=1, dropout=0.2),
}


@pytest.mark.parametrize("field", CHANGES)
def test_checkpoint_of_another_recipe_is_refused(
    field: str, digits: Dataset, tiny_recipe: Recipe, tiny_bundle: Path
) -> None:
    changed = tiny_recipe.model_copy(update={field: CHANGES[field]})
    assert "another recipe" in refusal(changed, digits, tiny_bundle.with_suffix(".pt"))


def test_a_training_is_prolonged_on_its_plateau(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    """Stopped at step 6 of 10 + 4 and continued to 20 + 4, it is the longer training to the last
    bit. Where the rate should have begun to fall, other steps are refused."""
    short, long = (
        tiny_recipe.model_copy(update={"steps": steps, "decay": 4}) for steps in (14, 24)
    )

    def stop(step: int, loss: float) -> None:
        if step == 6:
            raise KeyboardInterrupt

    path = tmp_path / "prolonged.pt"
    with pytest.raises(KeyboardInterrupt):
        train(short, digits, path, progress=stop)
    train(long, digits, path)
    train(long, digits, tmp_path / "whole.pt")
    prolonged, whole = (
        torch.load(tmp_path / name, weights_only=True) for name in ("prolonged.pt", "whole.pt")
    )
    assert prolonged["step"] == 24
    assert equal(prolonged, whole)
    assert "up to step 10" in refusal(short, digits, path)


def test_checkpoint_of_other_data_is_refused(
    digits: Dataset, tiny_recipe: Recipe, tiny_bundle: Path
) -> None:
    pixels = digits.train.pixels.clone()
    pixels[7, 0, 3, 3] ^= 1
    touched = digits._replace(train=digits.train._replace(pixels=pixels))
    assert "dataset" in refusal(tiny_recipe, touched, tiny_bundle.with_suffix(".pt"))


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("kind", ["pickle", "torch.save", "legacy torch.save"])
def test_a_checkpoint_is_never_unpickled(
    kind: str, digits: Dataset, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    path, mark = tmp_path / "trap.pt", tmp_path / "mark"
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"identity": Trap(mark)}, protocol=2))
    else:
        zipped = kind == "torch.save"
        torch.save({"identity": Trap(mark)}, path, _use_new_zipfile_serialization=zipped)
    refusal(tiny_recipe, digits, path)
    assert not mark.exists()
    if kind == "pickle":
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert mark.exists()  # the trap works


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "hole", "tensor", "list", "no identity"])
def test_foreign_checkpoints_are_refused(
    kind: str, digits: Dataset, tiny_recipe: Recipe, tiny_bundle: Path, tmp_path: Path
) -> None:
    path = tmp_path / "foreign.pt"
    whole = tiny_bundle.with_suffix(".pt").read_bytes()
    contents = {"empty": b"", "text": b"half a sentence", "cut": whole[: len(whole) // 2]}
    contents["hole"] = whole[:100] + bytes(5000) + whole[5100:]
    values = {"tensor": torch.zeros(3), "list": [1, 2], "no identity": {"step": 3}}
    if kind in contents:
        path.write_bytes(contents[kind])
    else:
        torch.save(values[kind], path)
    assert "not one of ablate's" in refusal(tiny_recipe, digits, path)


def test_checkpoints_are_written_when_due_and_at_the_end(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    original = torch.save

    def save(state: dict[str, Any], path: Path) -> None:
        written.append(state["step"])
        original(state, path)

    monkeypatch.setattr(torch, "save", save)
    recipe = tiny_recipe.model_copy(update={"steps": 7})
    train(recipe, digits, tmp_path / "a.pt", options=Options(due=lambda step: step % 3 == 0))
    assert written == [3, 6, 7]
    assert Counter(path.name for path in tmp_path.iterdir()) == {"a.pt": 1}


def test_an_interrupt_in_mid_step_loses_nothing(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is finished, then saved: no checkpoint is due by itself."""
    recipe = tiny_recipe.model_copy(update={"steps": 5})
    options = Options(due=lambda step: False)
    through = train(recipe, digits, tmp_path / "through.pt").model.net.state_dict()
    taken: list[int] = []

    def interrupted(
        recipe: Recipe, trainable: TrainableModel, images: TrainingImages, step: int
    ) -> tuple[Tensor, Tensor]:
        taken.append(step)
        if len(taken) == 3:
            signal.raise_signal(signal.SIGINT)
        return take_step(recipe, trainable, images, step)

    monkeypatch.setattr(state, "take_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, digits, tmp_path / "a.pt", options=options)
    resumed = train(recipe, digits, tmp_path / "a.pt", options=options).model.net.state_dict()
    assert taken == [0, 1, 2, 3, 4]
    assert all(torch.equal(value, through[name]) for name, value in resumed.items())
