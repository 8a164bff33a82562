"""A network on its way: how it starts, and what one step does to it.

Batch order, noise levels and noise of step k come from (seed, k) alone. Of several processes each
draws all of a batch and takes its share, so that their number changes nothing but dropout.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ablate.data.datasets import mirrored
from ablate.diffusion.moments import Moments
from ablate.models.bundle import build_model
from ablate.models.recipe import Recipe
from ablate.nets.precondition import Model
from ablate.training import distributed as parallel
from ablate.training.ema import PowerEMA
from ablate.training.optimiser import make_optimiser

TIMED_STEPS, UNTIMED_STEPS = 20, 5
"""To find out how many steps fit a budget; the first few are slower (compiling, allocating)."""


Shape = tuple[int, int, int]


class WarmStart(NamedTuple):
    name: str
    hash: str
    weights: dict[str, Tensor]


class Examples(NamedTuple):
    """What is learnt from, on the device where it is."""

    y: Tensor  # log images, [N, C, H, W]
    labels: Tensor  # [N]


class Losses(nn.Module):
    """`model.losses` as a module, for compilers and wrappers that take modules."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, y_0: Tensor, s: Tensor, z: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.model.losses(y_0, s, z, labels)


class Learner(NamedTuple):
    model: Model
    losses: Callable[..., Tensor]  # (y_0, s, z, labels) -> of each image, [B]
    optimiser: torch.optim.Optimizer


def generator_of(seed: int, purpose: str, index: int) -> torch.Generator:
    digest = hashlib.blake2b(f"train/{purpose}/{seed}/{index}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def batch_indices(seed: int, step: int, batch: int, size: int) -> Tensor:
    """Images of a step: consecutive pieces of one shuffle per epoch."""
    first, last = step * batch, (step + 1) * batch
    pieces = []
    for epoch in range(first // size, (last - 1) // size + 1):
        shuffle = torch.randperm(size, generator=generator_of(seed, "order", epoch))
        pieces.append(shuffle[max(0, first - epoch * size) : last - epoch * size])
    return torch.cat(pieces)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then a cosine to zero."""
    warm = min(1.0, (step + 1) / max(1, recipe.warmup))
    return recipe.rate * warm * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))


def make_learner(
    recipe: Recipe, shape: Shape, moments: Moments, device: str, start: WarmStart | None
) -> Learner:
    model = make_model(recipe, shape, moments, device)
    if start is not None:
        model.net.load_state_dict(start.weights)
    optimiser = make_optimiser(model.net, recipe)
    return Learner(model.train(), _losses(model, device), optimiser)


def make_model(recipe: Recipe, shape: Shape, moments: Moments, device: str) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return build_model(shape, recipe, moments.everything).to(device)


def _losses(model: Model, device: str) -> Callable[..., Tensor]:
    """On CUDA compiled, and the network alone in bfloat16: D_lin would lose what it is for."""
    cuda = torch.device(device).type == "cuda"
    if cuda:
        autocast = torch.autocast("cuda", torch.bfloat16)
        model.net.forward = autocast(model.net.forward)
    called = parallel.wrapped(Losses(model), device)
    return torch.compile(called) if cuda else called


@contextmanager
def _dropout(recipe: Recipe, generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """It draws from the global generator, which is left as it was."""
    if not recipe.net.dropout:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)) + parallel.rank())
        yield


def steps_in(seconds: float, recipe: Recipe, learner: Learner, examples: Examples) -> int:
    """By the clock, from steps that are taken back; these are part of the budget too."""
    net = learner.model.net
    before = {name: value.clone() for name, value in net.state_dict().items()}
    optimiser = make_optimiser(net, recipe)
    ema, ends = PowerEMA(net, recipe.gamma), [time.perf_counter()]
    for step in range(TIMED_STEPS):
        take_step(recipe, learner._replace(optimiser=optimiser), examples, step)
        ema.update(net, step + 1)
        ends.append(time.perf_counter())
    net.load_state_dict(before)
    each = (ends[-1] - ends[UNTIMED_STEPS]) / (TIMED_STEPS - UNTIMED_STEPS)
    return parallel.agreed(max(1, int((seconds - (ends[-1] - ends[0])) / each)))


def take_step(
    recipe: Recipe, learner: Learner, examples: Examples, step: int
) -> tuple[Tensor, Tensor]:
    """One update; the batch's noise levels and losses, both [B]."""
    mine, device = parallel.share(recipe.batch), examples.y.device
    generator = generator_of(recipe.seed, "noise", step)
    chosen = batch_indices(recipe.seed, step, recipe.batch, len(examples.y))[mine].to(device)
    y_0 = examples.y[chosen]
    levels = recipe.noise_levels(generator)
    s = levels[mine].to(device)
    z = torch.randn((recipe.batch, *y_0.shape[1:]), generator=generator)[mine].to(device)
    if recipe.flips:
        y_0 = mirrored(y_0, torch.rand(recipe.batch, generator=generator)[mine] < 0.5)
    labels = None
    if recipe.net.classes:
        dropped = torch.rand(recipe.batch, generator=generator)[mine] < recipe.label_drop
        labels = examples.labels[chosen].masked_fill(dropped.to(device), recipe.net.classes)
    with _dropout(recipe, generator, device):
        losses = learner.losses(y_0, s, z, labels)
    learner.optimiser.zero_grad(set_to_none=True)
    losses.mean().backward()
    nn.utils.clip_grad_norm_(learner.model.net.parameters(), recipe.clip)
    learner.optimiser.step()
    return levels, parallel.gathered(losses.detach()).flatten().cpu()
