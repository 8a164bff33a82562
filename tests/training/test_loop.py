"""Training is a function of (recipe, step): its schedule, its first steps, and its resumption."""

from __future__ import annotations

import math
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.losses import preconditioned
from ablate.diffusion.moments import fit_moments
from ablate.models import bundle as bundles
from ablate.models.bundle import build_model
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.nets.precondition import Model, Preconditioned
from ablate.training import clock, state
from ablate.training.heldout import EVALUATION_LEVELS, heldout_error
from ablate.training.loop import train
from ablate.training.options import Options, check_fits
from ablate.training.step import (
    TrainableModel,
    TrainingImages,
    batch_indices,
    generator_of,
    learning_rate,
    take_step,
)
from tests.support.beds import generator, normal

# --- what a step sees ---------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "size"), [(8, 24), (7, 24), (50, 24), (24, 24), (1, 5)])
def test_every_image_is_seen_once_per_epoch(batch: int, size: int) -> None:
    """Batches laid end to end are one permutation of all images after another."""
    steps = math.ceil(4 * size / batch)
    order = torch.cat([batch_indices(3, step, batch, size) for step in range(steps)])
    assert len(order) == steps * batch
    epochs = order[: 4 * size].view(4, size)
    assert torch.equal(epochs.sort(1).values, torch.arange(size).expand(4, -1))
    if size > 20:  # the chance of two equal shuffles is 1/24!
        assert len({tuple(epoch.tolist()) for epoch in epochs}) == 4


def test_batches_depend_on_seed_and_step_alone() -> None:
    """Not on which were asked for before, nor on the global generator."""
    late = batch_indices(3, 9, 16, 100)
    for step in range(9):
        batch_indices(3, step, 16, 100)
    assert torch.equal(late, batch_indices(3, 9, 16, 100))
    assert not torch.equal(late, batch_indices(4, 9, 16, 100))
    assert not torch.equal(late, batch_indices(3, 10, 16, 100))


def test_noise_levels_are_stratified_over_the_range() -> None:
    """One in each of `batch` equal parts of log s; float32 may round a border by 1e-6."""
    recipe = Recipe(dataset="digits", steps=1, batch=50, s_min=0.002, s_max=3.0)
    orders = set()
    for seed in range(20):
        s = recipe.noise_levels(generator(seed))
        assert s.shape == (50,)
        assert 0.002 * (1 - 1e-6) <= float(s.min()) <= float(s.max()) <= 3 * (1 + 1e-6)
        place = 50 * (s.double() / 0.002).log() / math.log(3 / 0.002)
        offset = place.sort().values - torch.arange(50)
        assert -1e-4 <= float(offset.min()) <= float(offset.max()) <= 1 + 1e-4
        orders.add(tuple(s.argsort().tolist()))
    assert len(orders) == 20  # or else image and level would go together


def test_noise_levels_are_uniform_within_their_strata() -> None:
    """400 batches of 5: the place within a stratum has mean ½ and variance 1/12, n = 2,000.

    The variance of the squared deviation of a uniform is 1/180.
    """
    recipe = Recipe(dataset="digits", steps=1, batch=5, s_min=0.01, s_max=1.0)
    s = torch.stack([recipe.noise_levels(generator(seed)) for seed in range(400)]).double()
    place = (5 * (s / 0.01).log() / math.log(100)).frac()
    assert float(place.mean()) == pytest.approx(1 / 2, abs=4 / math.sqrt(12 * 2000))
    squares = (place - 0.5) ** 2
    assert float(squares.mean()) == pytest.approx(1 / 12, abs=4 / math.sqrt(180 * 2000))


def test_learning_rate_warms_up_and_falls_to_zero() -> None:
    recipe = Recipe(dataset="digits", steps=1000, rate=0.5, warmup=10)
    rates = [learning_rate(recipe, step) for step in range(1000)]
    assert rates[0] == pytest.approx(0.05)
    for step in (0, 4, 9, 10, 500, 999):
        cosine = 0.5 * (1 + math.cos(math.pi * step / 1000))
        assert rates[step] == pytest.approx(0.5 * min(1, (step + 1) / 10) * cosine)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[500] == pytest.approx(0.25)
    assert 0 < rates[-1] < 1e-5
    without = recipe.model_copy(update={"warmup": 0})
    assert learning_rate(without, 0) == 0.5


# --- learning -----------------------------------------------------------------------------------


def losses_of(recipe: Recipe, digits: Dataset, folder: Path) -> Tensor:
    seen: list[float] = []
    train(recipe, digits, folder / f"{recipe.rate}.pt", progress=lambda _, loss: seen.append(loss))
    return torch.tensor(seen, dtype=torch.float64)


def test_loss_starts_at_one_and_falls(digits: Dataset, tmp_path: Path) -> None:
    """Step k has the same images and noise whatever the weights, so a run that learns is paired
    step by step with one whose rate is as good as zero.

    That one is the linear denoiser all along, whose loss is 1 by construction; rank 0 (EDM's
    scalar form) leaves the network so much to learn that 30 steps show it.
    """
    sizes = {"steps": 30, "batch": 32, "warmup": 3, "rank": 0, "class_rank": 0}
    net = Net(widths=(16,), blocks=1)
    recipe = Recipe(dataset="digits", rate=0.01, s_min=0.1, net=net, **sizes)
    still = losses_of(recipe.model_copy(update={"rate": 1e-12}), digits, tmp_path)
    assert abs(float(still.mean()) - 1) < 4 * float(still.std()) / math.sqrt(30)
    moving = losses_of(recipe, digits, tmp_path)
    assert moving[0] == still[0]  # before any step
    assert bool((moving[10:] < still[10:]).all())
    assert float((still - moving)[20:].mean()) > 0.05


def test_heldout_error_is_that_of_the_denoiser(digits: Dataset, tiny_recipe: Recipe) -> None:
    """Untrained, on the images it was fitted to: c_out² in expectation, the linear denoiser's.

    The standard error is taken over images, from other noise than the function's own; both the
    function and this check are one draw, hence √2. Images are 1,438 of 1,438 - 1 degrees.
    """
    x = to_unit_interval_plus_one(digits.train.pixels)
    moments = fit_moments(x, digits.train.labels, 64, 16)
    model = build_model(digits.shape, tiny_recipe, moments.everything).eval()
    assert isinstance(model, Preconditioned)
    errors = heldout_error(model, digits._replace(heldout=digits.train), "cpu")
    assert tuple(errors) == EVALUATION_LEVELS
    y_0 = x.log()
    for index, (s, measured) in enumerate(errors.items()):
        level = torch.full((len(y_0),), s)
        with torch.no_grad():
            denoised = model(y_0 + s * normal(tuple(y_0.shape), 50 + index).float(), level)
        by_image = ((denoised - y_0) ** 2).flatten(1).mean(1).double()
        error = float(by_image.std()) / math.sqrt(len(by_image))
        assert error < 0.05 * measured
        assert abs(measured - float(by_image.mean())) < 4 * math.sqrt(2) * error
        assert abs(measured - float(model.error_variance(level)[0])) < 4 * error


def test_heldout_error_sees_heldout_images_alone(digits: Dataset, tiny_bundle: Path) -> None:
    """And gives what stands on the bundle's card, up to the weights' float16."""
    bundle = bundles.read(tiny_bundle)
    errors = heldout_error(bundle.model, digits, "cpu")
    stated = bundle.card.provenance["heldout_error"]
    for s, error in errors.items():
        assert error == pytest.approx(stated[str(s)], rel=1e-3)
    swapped = heldout_error(bundle.model, digits._replace(heldout=digits.train), "cpu")
    assert all(swapped[s] != errors[s] for s in errors)


def test_training_leaves_the_global_generator_alone(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    """And does not listen to it: weights and dropout come from the recipe's seed."""
    recipe = tiny_recipe.model_copy(update={"steps": 2})
    with torch.random.fork_rng(devices=[]):
        results = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            results.append(train(recipe, digits, tmp_path / f"{seed}.pt").model.state_dict())
            assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(value, results[1][name]) for name, value in results[0].items())
    other = recipe.model_copy(update={"seed": 1})
    weights = train(other, digits, tmp_path / "other.pt").model.state_dict()
    assert not torch.equal(weights["net.stem.weight"], results[0]["net.stem.weight"])


def test_trained_weights_are_the_average_over_the_run(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Σ_τ (τ^(γ+1) - (τ-1)^(γ+1)) θ_τ / t^(γ+1) of the weights after each step, each taken at its
    own learning rate; float32, some ten roundings."""
    after: list[dict[str, Tensor]] = []
    rates: list[set[float]] = []

    def spied(
        recipe: Recipe, trainable: TrainableModel, images: TrainingImages, step: int
    ) -> tuple[Tensor, Tensor]:
        rates.append({group["lr"] for group in trainable.optimiser.param_groups})
        seen = take_step(recipe, trainable, images, step)
        weights = trainable.model.net.named_parameters()
        after.append({name: p.detach().clone() for name, p in weights})
        return seen

    monkeypatch.setattr(state, "take_step", spied)
    recipe = tiny_recipe.model_copy(update={"steps": 5, "gamma": 2.0})
    trained = train(recipe, digits, tmp_path / "five.pt").model
    assert not trained.training
    assert rates == [{learning_rate(recipe, step)} for step in range(5)]
    shares = [(t**3 - (t - 1) ** 3) / 5**3 for t in range(1, 6)]
    for name, value in trained.net.named_parameters():
        pairs = zip(shares, after, strict=True)
        expected = torch.stack([share * weights[name].double() for share, weights in pairs]).sum(0)
        torch.testing.assert_close(value.detach().double(), expected, rtol=1e-5, atol=1e-6)
        if name.endswith("stem.weight"):
            assert not torch.allclose(value, after[-1][name], rtol=1e-3, atol=1e-5)


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


def step_inputs(
    recipe: Recipe, images: TrainingImages, step: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(images, their indices, labels) that the loss function of a step is called with."""
    calls: list[tuple[Tensor, Tensor | None]] = []
    weight = torch.nn.Parameter(torch.ones(()))
    model = Model(torch.nn.ParameterList([weight]))

    def losses(y_0: Tensor, s: Tensor, z: Tensor, labels: Tensor | None) -> Tensor:
        calls.append((y_0, labels))
        return weight * y_0.flatten(1).sum(1, keepdim=True)

    optimiser = torch.optim.SGD([weight], 0.0)
    take_step(recipe, TrainableModel(model, losses, optimiser), images, step)
    chosen = batch_indices(recipe.seed, step, recipe.batch, len(images.y))
    return calls[0][0], chosen, calls[0][1]


def test_flips_mirror_about_half_of_the_images() -> None:
    images = TrainingImages(normal((600, 3, 4, 4), 0).float(), torch.arange(600) % 10)
    recipe = Recipe(dataset="cifar10", steps=9, batch=600, flips=True)
    seen, chosen, _ = step_inputs(recipe, images, 2)
    plain = images.y[chosen]
    as_is = (seen == plain).flatten(1).all(1)
    mirror = (seen == plain.flip(3)).flatten(1).all(1)
    assert bool((as_is ^ mirror).all())
    assert abs(int(mirror.sum()) - 300) < 4 * 150**0.5  # binomial: variance 600/4
    assert torch.equal(step_inputs(recipe.model_copy(update={"flips": False}), images, 2)[0], plain)


def test_a_network_with_classes_gets_labels_and_some_are_dropped() -> None:
    images = TrainingImages(normal((1000, 1, 4, 4), 0).float(), torch.arange(1000) % 10)
    recipe = Recipe(
        dataset="digits", steps=9, batch=1000, label_drop=0.2, net=Net(widths=(8,), classes=10)
    )
    _, chosen, labels = step_inputs(recipe, images, 1)
    assert labels is not None
    dropped = labels.eq(10)
    assert torch.equal(labels[~dropped], images.labels[chosen][~dropped])
    assert abs(int(dropped.sum()) - 200) < 4 * 160**0.5  # binomial: variance 1000 · 0.2 · 0.8
    assert step_inputs(recipe.model_copy(update={"net": Net(widths=(8,))}), images, 1)[2] is None


def test_labels_are_learnt(digits: Dataset, tiny_recipe: Recipe, tmp_path: Path) -> None:
    """A denoiser of digits is better with the class than without, at a high noise level."""
    net = Net(widths=(16,), blocks=1, classes=10)
    more = {"steps": 150, "batch": 64, "rate": 1e-2, "rank": 16, "s_min": 0.3, "net": net}
    recipe = tiny_recipe.model_copy(update=more)
    model = train(recipe, digits, tmp_path / "a.pt").model
    y_0 = to_unit_interval_plus_one(digits.heldout.pixels).log()
    labels, s = digits.heldout.labels, torch.full((len(y_0),), 1.0)
    noisy = y_0 + normal(tuple(y_0.shape), 5).float()

    def error(labels: Tensor | None) -> float:
        with torch.no_grad():
            return float((model(noisy, s, labels) - y_0).square().mean())

    right, none, wrong = error(labels), error(None), error((labels + 3) % 10)
    assert right < 0.9 * none
    assert none < wrong


def test_classes_must_be_those_of_the_dataset(digits: Dataset, tiny_recipe: Recipe) -> None:
    recipe = tiny_recipe.model_copy(update={"net": Net(widths=(8,), classes=7)})
    with pytest.raises(UserError, match=r"net.classes = 7, digits has 10"):
        check_fits(recipe, digits)


def test_the_loss_is_the_weighted_error_of_the_step(
    digits: Dataset, tiny_recipe: Recipe, tmp_path: Path
) -> None:
    """The first loss, put together by hand from what the step is said to see."""
    seen = []
    recipe = tiny_recipe.model_copy(update={"steps": 1})
    train(recipe, digits, tmp_path / "one.pt", progress=lambda _, loss: seen.append(loss))
    x = to_unit_interval_plus_one(digits.train.pixels)
    gaussian = fit_moments(x, digits.train.labels, 64, 16).everything
    y_0 = x[batch_indices(0, 0, 32, len(x))].log().flatten(1).double()
    source = generator_of(0, "noise", 0)
    s = recipe.noise_levels(source).double()[:, None]
    z = torch.randn((32, 1, 8, 8), generator=source).flatten(1).double()
    denoised = gaussian.wiener(y_0 + s * z, s)  # the network is still zero
    expected = preconditioned(denoised, y_0, gaussian.wiener_error(s))
    assert seen == [pytest.approx(float(expected), rel=1e-4)]  # float32; s = 0.002 cancels 3 digits


# --- interruption -------------------------------------------------------------------------------

DRIVER = """
import os
import sys
from pathlib import Path

import sklearn.datasets
import torch

from ablate.training.pack import make_bundle
from ablate.data.datasets import load
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.models.recipe import Recipe
from ablate.training.options import Options

torch.set_num_threads(1)
recipe, folder = Recipe.model_validate_json(sys.argv[1]), Path(sys.argv[2])


def die():
    os.kill(os.getpid(), 9)


def half_a_checkpoint(state, path):
    Path(path).write_bytes(b"half")
    die()


def run(fatal):
    def progress(step, loss):
        print(step, end=" ", flush=True)
        if fatal == str(step):
            die()

    if fatal == "save":
        torch.save = half_a_checkpoint
    options = Options(due=lambda step: step % 4 == 0)
    files = folder / "tiny.pt", folder / "tiny.safetensors"
    extractor = load_extractor(shipped_path("digits"))
    parts = load("digits"), extractor, *files
    make_bundle("tiny", recipe, *parts, progress=progress, options=options)


for fatal in sys.argv[3:]:
    process = os.fork()
    if process == 0:
        run(fatal)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    bundle = (folder / "tiny.safetensors").exists()
    print(":", status, bundle, flush=True)
"""


def steps_and_ends(recipe: Recipe, folder: Path, *fatal: str) -> list[tuple[list[int], str]]:
    """Train in one process after another, each to die by SIGKILL at a step, in the middle of a
    checkpoint ("save") or not at all (""); forked, because importing takes longer than training.
    Gives the steps each took, its exit code and whether there is a bundle after it."""
    command = [sys.executable, "-c", DRIVER, recipe.model_dump_json(), str(folder), *fatal]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    rows = [line.split(":") for line in done.stdout.splitlines()]
    return [([int(step) for step in steps.split()], end.strip()) for steps, end in rows]


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
    assert steps_and_ends(tiny_recipe, tmp_path, "6", "save", "") == [
        (list(range(1, 7)), f"{-signal.SIGKILL} False"),
        (list(range(5, 9)), f"{-signal.SIGKILL} False"),
        (list(range(5, 16)), "0 True"),
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


def test_checkpoints_are_due_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each three minutes, counted from the last; steps of 50 seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    due, steps = clock.every(180.0), []
    for step in range(1, 13):
        now[0] += 50
        steps += [step] if due(step) else []
    assert steps == [4, 8, 12]
