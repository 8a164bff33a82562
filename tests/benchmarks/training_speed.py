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
from torch.utils.data import DataLoader, TensorDataset

from ablate.build import read_recipe
from ablate.bundle import build_model
from ablate.data import load, to_unit_interval_plus_one
from ablate.ema import PowerEMA
from ablate.home import Home
from ablate.moments import fit_moments
from ablate.objective import denoising_loss, noise_levels
from ablate.train import _learner, _step

STEPS = 10


def main(name: str = "fashion", rounds: int = 9) -> None:
    recipe = read_recipe(Home(Path()).find_toml(name, "train"))
    dataset = load(recipe.dataset)
    x = to_unit_interval_plus_one(dataset.train.pixels)
    moments = fit_moments(x, dataset.train.labels, recipe.rank, recipe.class_rank)
    y = x.log()
    generator = torch.Generator().manual_seed(0)
    s, z = noise_levels(recipe, generator), torch.randn((recipe.batch, *dataset.shape))

    bare_model = build_model(dataset.shape, recipe, moments.everything).train()

    def bare(step: int) -> None:
        """Nothing but the network on one fixed batch."""
        bare_model.zero_grad(set_to_none=True)
        denoising_loss(bare_model, y[: recipe.batch], s, z).backward()

    plain_model = build_model(dataset.shape, recipe, moments.everything).train()
    plain_model = plain_model.to(memory_format=torch.contiguous_format)
    adamw = torch.optim.AdamW(plain_model.net.parameters(), lr=recipe.rate)
    batches = _endless(y, recipe.batch)
    average = {k: v.clone() for k, v in plain_model.net.state_dict().items()}

    def plain(step: int) -> None:
        """As one writes it first: workers, default memory format, `.item()` at every step."""
        y_0 = next(batches)
        levels = recipe.s_min * (recipe.s_max / recipe.s_min) ** torch.rand(len(y_0))
        loss = denoising_loss(plain_model, y_0, levels, torch.randn_like(y_0))
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain_model.net.parameters(), recipe.clip)
        adamw.step()
        with torch.no_grad():
            for key, value in plain_model.net.state_dict().items():
                average[key].mul_(0.999).add_(value, alpha=0.001)
        loss.item()

    learner = _learner(recipe, dataset, moments, "cpu", None)
    ema = PowerEMA(learner.model.net, recipe.gamma)

    def ours(step: int) -> None:
        _step(recipe, learner, y, step)
        ema.update(learner.model.net, step + 1)

    loops: dict[str, Callable[[int], None]] = {"bare": bare, "plain": plain, "ours": ours}
    speeds: dict[str, list[float]] = {loop: [] for loop in loops}
    for turn in range(rounds + 1):  # the first warms up
        for loop, run in loops.items():
            began = time.perf_counter()
            for step in range(STEPS):
                run(turn * STEPS + step)
            if turn:
                speeds[loop].append(STEPS * recipe.batch / (time.perf_counter() - began))
    for loop, found in speeds.items():
        print(f"{loop:6s} {statistics.median(found):7.1f} images/s")
    for other in ("bare", "plain"):
        ratio = statistics.median(a / b for a, b in zip(speeds["ours"], speeds[other], strict=True))
        print(f"ours / {other:6s} {ratio:.3f}")


def _endless(y: torch.Tensor, batch: int) -> Iterator[torch.Tensor]:
    loader = DataLoader(TensorDataset(y), batch, shuffle=True, num_workers=2, drop_last=True)
    while True:
        for (y_0,) in loader:
            yield y_0


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
