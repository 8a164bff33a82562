"""Training is a function of its recipe: the loss falls, and the result is the average weights."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.moments import fit_moments
from ablate.models import bundle as bundles
from ablate.models.bundle import build_model
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.nets.precondition import Preconditioned
from ablate.training import state
from ablate.training.heldout import EVALUATION_LEVELS, heldout_error
from ablate.training.loop import train
from ablate.training.options import check_fits
from ablate.training.step import (
    TrainableModel,
    TrainingImages,
    learning_rate,
    take_step,
)
from tests.support.beds import normal


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
    model = build_model(digits.shape, tiny_recipe, moments).eval()
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
