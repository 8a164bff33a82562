"""Images per second of training: a plain loop, ours, and the bare forward and backward pass.

    ABLATE_DATA=… python -m tests.benchmarks.training_speed [RECIPE] [ROUNDS]

The three take turns within one run, so that a noisy machine is noisy for all of them; a round is
ten steps of each, and the median of the rounds is printed, with the ratios that matter.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from ablate.core.workspace import Workspace
from ablate.data.datasets import load, to_unit_interval_plus_one
from ablate.diffusion.moments import Moments, fit_moments
from ablate.models.bundle import build_model
from ablate.models.recipe import Recipe
from ablate.nets.precondition import Model
from ablate.training.pack import read_recipe
from ablate.training.state import TrainingState
from ablate.training.step import TrainingImages, make_trainable

STEPS = 10
Loop = Callable[[int], object]


class DefaultFormat(nn.Module):
    """A network in torch's default memory format, whatever it is given."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.to(memory_format=torch.contiguous_format)

    def forward(self, image: Tensor, log_s: Tensor) -> Tensor:
        out: Tensor = self.net(image.contiguous(), log_s)
        return out


def bare_loop(recipe: Recipe, model: Model, y: Tensor) -> Loop:
    """Nothing but the network on one fixed batch."""
    s, z = recipe.noise_levels(torch.Generator().manual_seed(0)), torch.randn_like(y)

    def step(index: int) -> None:
        model.zero_grad(set_to_none=True)
        model.losses(y, s, z).mean().backward()

    return step


def plain_loop(recipe: Recipe, model: Model, y: Tensor) -> Loop:
    """As one writes it first: workers, default memory format, `.item()` at every step."""
    model.net = DefaultFormat(model.net)
    adamw = torch.optim.AdamW(model.net.parameters(), lr=recipe.rate)
    average = {name: value.clone() for name, value in model.net.state_dict().items()}
    batches = _endless(y, recipe.batch)

    def step(index: int) -> None:
        y_0 = next(batches)
        levels = recipe.s_min * (recipe.s_max / recipe.s_min) ** torch.rand(len(y_0))
        loss = model.losses(y_0, levels, torch.randn_like(y_0)).mean()
        adamw.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.net.parameters(), recipe.clip)
        adamw.step()
        with torch.no_grad():
            for name, value in model.net.state_dict().items():
                average[name].mul_(0.999).add_(value, alpha=0.001)
        loss.item()

    return step


def _endless(y: Tensor, batch: int) -> Iterator[Tensor]:
    loader = DataLoader(TensorDataset(y), batch, shuffle=True, num_workers=2, drop_last=True)
    while True:
        for (y_0,) in loader:
            yield y_0


def our_loop(recipe: Recipe, moments: Moments, images: TrainingImages) -> Loop:
    """As `ablate train` does it, but for the progress bar."""
    shape = (images.y.shape[1], images.y.shape[2], images.y.shape[3])
    state = TrainingState(recipe, make_trainable(recipe, shape, moments, "cpu", None))
    return lambda step: state.advance(images)


def speeds(loops: dict[str, Loop], batch: int, rounds: int) -> dict[str, list[float]]:
    """Images per second of each, by round; one more round warms up."""
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(rounds + 1):
        for name, run in loops.items():
            began = time.perf_counter()
            for step in range(STEPS):
                run(turn * STEPS + step)
            if turn:
                rates[name].append(STEPS * batch / (time.perf_counter() - began))
    return rates


DEFAULTS = ("fashion", "9")
"""Of the arguments: the recipe and the number of rounds."""


def main(name: str, rounds: int) -> None:
    recipe = read_recipe(Workspace(Path()).find_toml(name, "train"))
    dataset = load(recipe.dataset)
    x = to_unit_interval_plus_one(dataset.train.pixels)
    moments = fit_moments(x, dataset.train.labels, recipe.rank, recipe.class_rank)
    images = TrainingImages(x.log(), dataset.train.labels)

    def fresh() -> Model:
        return build_model(dataset.shape, recipe, moments).train()

    loops = {
        "bare": bare_loop(recipe, fresh(), images.y[: recipe.batch]),
        "plain": plain_loop(recipe, fresh(), images.y),
        "ours": our_loop(recipe, moments, images),
    }
    measured = speeds(loops, recipe.batch, rounds)
    for loop, rates in measured.items():
        print(f"{loop:6s} {statistics.median(rates):7.1f} images/s")
    for other in ("bare", "plain"):
        ratio = statistics.median(
            a / b for a, b in zip(measured["ours"], measured[other], strict=True)
        )
        print(f"ours / {other:6s} {ratio:.3f}")


if __name__ == "__main__":
    name, count = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]
    main(name, int(count))
