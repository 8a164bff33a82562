"""One step of training: its images, noise levels, labels and learning rate."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.losses import preconditioned
from ablate.diffusion.moments import fit_moments
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.nets.precondition import Model
from ablate.training.loop import train
from ablate.training.step import (
    TrainableModel,
    TrainingImages,
    batch_indices,
    generator_of,
    learning_rate,
    make_trainable,
    take_step,
)
from tests.support.beds import generator, normal


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


def test_learning_rate_with_a_plateau() -> None:
    """Constant after the warm-up, then linear: step 1000 would have rate 0."""
    recipe = Recipe(dataset="digits", steps=1000, rate=0.5, warmup=10, decay=200)
    rates = [learning_rate(recipe, step) for step in range(1000)]
    assert rates[0] == pytest.approx(0.05)
    assert set(rates[9:801]) == {0.5}
    assert rates[900] == pytest.approx(0.25)
    assert rates[999] == pytest.approx(0.5 / 200)


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


def test_bfloat16_is_for_the_network_alone(digits: Dataset, tmp_path: Path) -> None:
    """An untrained network's output is zero, so the first loss is the linear denoiser's to the
    last bit; after some steps it is float32's up to bfloat16's 8 bits."""
    sizes = {"steps": 6, "batch": 32, "warmup": 3, "rank": 64, "class_rank": 16}
    net = Net(widths=(16,), blocks=1)
    losses: dict[str, list[float]] = {"float32": [], "bfloat16": []}
    for precision, seen in losses.items():
        recipe = Recipe(dataset="digits", net=net, precision=precision, **sizes)
        train(
            recipe,
            digits,
            tmp_path / f"{precision}.pt",
            progress=lambda step, loss, seen=seen: seen.append(loss),  # type: ignore[misc]
        )
    assert losses["bfloat16"][0] == losses["float32"][0]
    assert losses["bfloat16"][1:] != losses["float32"][1:]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=2**-8)


@pytest.mark.parametrize("objective", ["preconditioned", "paper"])
def test_the_network_gets_its_images_channels_last(
    digits: Dataset, tiny_recipe: Recipe, objective: str
) -> None:
    """And has its kernels so: convolutions are nearly twice as fast. A grey image has one order
    alone, hence three channels."""
    labels = digits.train.labels
    x = to_unit_interval_plus_one(digits.train.pixels.repeat(1, 3, 1, 1))
    moments = fit_moments(x, labels, 8, 4)
    recipe = tiny_recipe.model_copy(update={"objective": objective})
    trainable = make_trainable(recipe, (3, 8, 8), moments, "cpu", None)
    seen: list[bool] = []
    trainable.model.net.register_forward_pre_hook(
        lambda _, inputs: seen.append(
            inputs[0].is_contiguous(memory_format=torch.channels_last)
            and not inputs[0].is_contiguous()
        )
    )
    take_step(recipe, trainable, TrainingImages(x.log(), labels), 0)
    assert seen == [True]
    kernels = [p for p in trainable.model.net.parameters() if p.ndim == 4]
    assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)
