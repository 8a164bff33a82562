"""`ablate train`: what it refuses, when it is finished, and what its options do to the bundle."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from ablate.cli import main
from ablate.core.files import locked
from ablate.data.datasets import Dataset
from ablate.models import bundle as bundles
from ablate.models.recipe import Recipe
from ablate.training import clock, loop, mlflow_log, state
from ablate.training.loop import train
from ablate.training.options import Options, WarmStart
from ablate.training.step import TrainableModel, TrainingImages, take_step

TOML = """
dataset = "digits"
steps = {steps}
batch = 16
warmup = 2
rank = 8
class_rank = 4
{more}
[net]
widths = [8]
blocks = 1
"""

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_recipe(tmp_path)
    return tmp_path


def write_recipe(root: Path, steps: int = 3, more: str = "") -> None:
    path = root / "studies" / "train" / "tiny.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOML.format(steps=steps, more=more))


@pytest.fixture
def command(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`ablate train tiny …` in this process, off the record (making one takes four seconds): exit
    code, standard output and error."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(mlflow_log, "logged", lambda *_: nullcontext(lambda report: None))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(
            sys, "argv", ["ablate", "--root", str(root), "train", "tiny", *arguments]
        )
        with pytest.raises(SystemExit) as caught:
            main()
        return (int(caught.value.code or 0), *capsys.readouterr())

    return run


def bundle_of(root: Path) -> Path:
    return root / "mlruns" / "bundles" / "tiny.safetensors"


def weights_of(root: Path) -> dict[str, torch.Tensor]:
    return bundles.read(bundle_of(root)).model.net.state_dict()


# --- finished, again, alone ---------------------------------------------------------------------


def test_a_finished_training_says_so_unless_asked_again(root: Path, command: Command) -> None:
    code, out, _ = command()
    assert code == 0
    assert "images/s" in out
    assert "3/3 steps" in out
    assert not (root / "mlruns" / "training" / "tiny.pt").exists()
    first = bundle_of(root).read_bytes()
    code, out, _ = command()
    assert (code, out) == (0, f"already finished: {bundle_of(root)}; --again trains it anew\n")
    bundle_of(root).write_bytes(first + b" ")
    assert "3/3 steps" in command("--again")[1]
    assert bundle_of(root).read_bytes() == first
    write_recipe(root, steps=4)
    code, _, err = command()
    assert code == 2
    assert err.count("\n") == 1
    assert "steps = 3, not 4" in err
    assert "--again" in err


def test_one_training_at_a_time(root: Path, command: Command) -> None:
    lock = root / "mlruns" / "training" / "tiny.lock"
    with locked(lock, "tiny"):
        code, _, err = command()
        assert (code, err.count("\n")) == (2, 1)
        assert "tiny is being trained by another process" in err
        assert str(lock) in err
    assert not bundle_of(root).exists()
    assert command()[0] == 0


# --- what cannot be trained ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("widths = [8]", "widths = []", "net.widths"),
        ("widths = [8]", "widths = [8, 0]", "net.widths"),
        ("widths = [8]", "widths = [8]\npatch = 3", "net.patch = 3 does not divide the images"),
        ("batch = 16", "batch = 16\ns_min = 3.0", "s_min = 3 is not below s_max = 3"),
        ("batch = 16", "batch = 16\nsnapshots = -1", "snapshots"),
        ("blocks = 1", 'kind = "ddpm++"\nwidth = 9', "does not fit the images of digits, 8×8"),
    ],
)
def test_a_recipe_that_cannot_be_trained_is_refused_in_one_line(
    old: str,
    new: str,
    words: str,
    root: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = root / "studies" / "train" / "tiny.toml"
    path.write_text(path.read_text().replace(old, new))
    monkeypatch.setattr(loop, "moments_of", None)  # nothing expensive has begun
    code, out, err = command()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err
    assert not (root / "mlruns" / "mlflow.db").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--minutes", "0"], "--minutes"),
        (["--ema-length", "0.1"], "snapshots = 8"),
        (["--ema-length", "0.3"], "at most 0.28"),
        (["--from", "moon"], "bundle 'moon' is neither known"),
        (["--from", "digits"], "another network than the recipe's (widths = (32, 64), not (8,)"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], words: str, command: Command
) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_compile_falls_back_where_there_is_no_compiler(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, and the same weights as without the flag."""

    def fails(function: object) -> object:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch, "compile", fails)
    code, _, err = command("--compile")
    assert code == 0
    assert "--compile: not possible here (no compiler); training without\n" in err
    weights = weights_of(root)
    assert command("--again")[0] == 0
    assert all(torch.equal(value, weights[name]) for name, value in weights_of(root).items())


# --- budget of time -----------------------------------------------------------------------------


def test_minutes_decide_the_steps_and_a_resume_keeps_them(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that ticks once a reading: a timed step reads it once and lasts 0.5 s. Of the 30
    seconds 20 steps take 10, so that 40 are left; the weights are those of a recipe of 40."""
    write_recipe(root, steps=1000)
    ticks = iter(range(10**6))
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) / 2)

    def interrupted(
        recipe: Recipe, trainable: TrainableModel, images: TrainingImages, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append((recipe.steps, step))
        if len(seen) == 27:
            raise KeyboardInterrupt
        return take_step(recipe, trainable, images, step)

    for module in (clock, state):
        monkeypatch.setattr(module, "take_step", interrupted)
    assert command("--minutes", "0.5")[0] == 130
    assert seen[:20] == [(1000, step) for step in range(20)]  # taken back
    assert seen[20:] == [(40, step) for step in range(7)]
    code, out, _ = command("--minutes", "0.5")
    assert code == 0
    assert "40/40 steps" in out
    assert seen[27:] == [(40, step) for step in range(6, 40)]  # from where it was, untimed
    card = bundles.read_card(bundle_of(root))
    assert card.recipe.steps == 40
    assert card.provenance["images_seen"] == 40 * 16
    assert card.provenance["command"] == "ablate train tiny --minutes 0.5"
    assert command("--minutes", "0.5")[1].startswith("already finished")
    by_time = weights_of(root)
    write_recipe(root, steps=40)
    assert command("--again")[0] == 0
    assert all(torch.equal(value, by_time[name]) for name, value in weights_of(root).items())


# --- averages of a length chosen afterwards -----------------------------------------------------


def test_a_length_can_be_chosen_after_training(root: Path, command: Command) -> None:
    """The checkpoint with its snapshots stays; the default average is as without them, another
    length is packed without training, and the tracked one comes back as it was tracked."""
    assert command()[0] == 0
    plain = weights_of(root)
    write_recipe(root, more="snapshots = 2")
    assert command("--again")[0] == 0
    assert all(torch.equal(value, plain[name]) for name, value in weights_of(root).items())
    assert command()[1].startswith("already finished")
    code, out, _ = command("--ema-length", "0.1")
    assert code == 0
    assert "steps" not in out
    card = bundles.read_card(bundle_of(root))
    assert card.provenance["command"] == "ablate train tiny --ema-length 0.1"
    state = torch.load(root / "mlruns" / "training" / "tiny.pt", weights_only=True)
    tracked = state["snapshots"]["averages"][1]  # gamma = 6.94, which has that length to 3e-5
    for name, value in weights_of(root).items():
        assert torch.allclose(value, tracked[name], rtol=2e-3, atol=1e-4), name  # float16


# --- warm start ---------------------------------------------------------------------------------


def test_a_warm_start_takes_the_bundles_weights(root: Path, command: Command) -> None:
    assert command()[0] == 0
    first = bundles.read(bundle_of(root))
    (root / "first.safetensors").write_bytes(bundle_of(root).read_bytes())
    assert command("--again", "--from", "first.safetensors")[0] == 0
    second = bundles.read(bundle_of(root))
    assert second.card.provenance["started_from"] == f"tiny {first.hash}"
    seen = first.card.provenance["images_seen"]  # the card counts what both trainings saw
    assert second.card.provenance["images_seen_before"] == seen
    assert second.card.provenance["images_seen"] == 2 * seen
    pairs = zip(first.model.net.parameters(), second.model.net.parameters(), strict=True)
    assert any(not torch.equal(*pair) for pair in pairs)


def test_a_warm_start_begins_where_the_weights_are(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    """A rate as good as zero leaves them there."""
    trained = train(tiny_recipe, digits, tmp_path / "a.pt").model.net.state_dict()
    recipe = tiny_recipe.model_copy(update={"rate": 1e-12, "weight_decay": 0.0, "steps": 2})
    options = Options(start=WarmStart("a", "hash", trained))
    after = train(recipe, digits, tmp_path / "b.pt", options=options).model.net.state_dict()
    for name, value in after.items():
        assert torch.allclose(value, trained[name], rtol=1e-5, atol=1e-8), name


def test_a_warm_start_for_other_images_is_refused(
    root: Path, command: Command, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundles.read(tiny_bundle)
    card = bundle.card.model_copy(update={"shape": (1, 28, 28)})
    monkeypatch.setattr(bundles, "read", lambda path: bundle._replace(card=card))
    code, _, err = command("--from", str(tiny_bundle))
    assert (code, err.count("\n")) == (2, 1)
    assert "for images of 1×28×28, digits has 1×8×8" in err
