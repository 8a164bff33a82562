"""One step of training, and the model with its optimiser before the first step.

Batch order, noise levels and noise of step k come from (seed, k) alone. Each of several processes
draws the whole batch and computes on its share, so their number changes nothing but dropout.
"""

from __future__ import annotations

import hashlib
import math
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
from ablate.training import distributed
from ablate.training.augmentation import apply_maps, draw_maps
from ablate.training.optimiser import make_optimiser
from ablate.training.options import WarmStart

Shape = tuple[int, int, int]


class TrainingImages(NamedTuple):
    """The images that a network is trained on, on its device."""

    y: Tensor  # log images, [N, C, H, W]
    labels: Tensor  # [N]


class Losses(nn.Module):
    """`model.losses` as a module, for compilers and wrappers that take modules."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        y_0: Tensor,
        s: Tensor,
        z: Tensor,
        labels: Tensor | None = None,
        *maps: Tensor,
    ) -> Tensor:
        """maps: how the images were augmented, for models that are told."""
        return self.model.losses(y_0, s, z, labels, *maps)


class TrainableModel(NamedTuple):
    """A model with its loss function and its optimiser."""

    model: Model
    losses: Callable[..., Tensor]  # (y_0, s, z, labels, maps) -> the loss of each image, [B]
    optimiser: torch.optim.Optimizer


def generator_of(seed: int, purpose: str, index: int) -> torch.Generator:
    """A random generator that depends on (seed, purpose, index) alone."""
    digest = hashlib.blake2b(f"train/{purpose}/{seed}/{index}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def batch_indices(seed: int, step: int, batch: int, size: int) -> Tensor:
    """The images of a step, [batch]: consecutive pieces of one shuffle per epoch."""
    first, last = step * batch, (step + 1) * batch
    pieces = []
    for epoch in range(first // size, (last - 1) // size + 1):
        shuffle = torch.randperm(size, generator=generator_of(seed, "order", epoch))
        pieces.append(shuffle[max(0, first - epoch * size) : last - epoch * size])
    return torch.cat(pieces)


def learning_rate(recipe: Recipe, step: int) -> float:
    """The rate of a step: a linear warm-up, then a cosine to zero.

    With `decay` it is constant, and falls linearly to zero in the last steps.
    """
    warm = min(1.0, (step + 1) / max(1, recipe.warmup))
    if recipe.decay:
        return recipe.rate * warm * min(1.0, (recipe.steps - step) / recipe.decay)
    return recipe.rate * warm * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))


def make_trainable(
    recipe: Recipe,
    shape: Shape,
    moments: Moments,
    device: str,
    start: WarmStart | None,
    compiled: bool = False,
) -> TrainableModel:
    """The model before the first step, with new weights or those of a bundle.

    compiled: whether to compile the network on a CPU too.
    """
    model = make_model(recipe, shape, moments, device)
    if start is not None:
        model.net.load_state_dict(start.weights)
    optimiser = make_optimiser(model.net, recipe)
    return TrainableModel(model.train(), _losses(model, recipe, device, compiled), optimiser)


def make_model(recipe: Recipe, shape: Shape, moments: Moments, device: str) -> Model:
    """The recipe's model with new weights, which depend on its seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return build_model(shape, recipe, moments).to(device)


def _losses(model: Model, recipe: Recipe, device: str, compiled: bool) -> Callable[..., Tensor]:
    """The loss function: on CUDA compiled, with the network in bfloat16 by default.

    The linear denoiser stays in float32: its digits are what preconditioning is for.
    """
    kind = torch.device(device).type
    default = "bfloat16" if kind == "cuda" else "float32"
    if (default if recipe.precision == "auto" else recipe.precision) == "bfloat16":
        model.net.forward = torch.autocast(kind, torch.bfloat16)(model.net.forward)
    if compiled and kind == "cpu":
        model.net.forward = torch.compile(model.net.forward)
    called = distributed.data_parallel(Losses(model), device)
    return torch.compile(called) if kind == "cuda" else called


@contextmanager
def _dropout(recipe: Recipe, generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Seed the global generator, which dropout draws from, and restore it afterwards."""
    if not recipe.net.dropout:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)) + distributed.rank())
        yield


def take_step(
    recipe: Recipe, trainable: TrainableModel, images: TrainingImages, step: int
) -> tuple[Tensor, Tensor]:
    """Update the weights once; returns the noise levels and losses of the batch, both [B]."""
    share, device = distributed.batch_share(recipe.batch), images.y.device
    generator = generator_of(recipe.seed, "noise", step)
    chosen = batch_indices(recipe.seed, step, recipe.batch, len(images.y))[share].to(device)
    y_0 = images.y[chosen]
    levels = recipe.noise_levels(generator)
    s = levels[share].to(device)
    z = torch.randn((recipe.batch, *y_0.shape[1:]), generator=generator)[share].to(device)
    if recipe.flips:
        y_0 = mirrored(y_0, torch.rand(recipe.batch, generator=generator)[share] < 0.5)
    labels = None
    if recipe.net.classes:
        dropped = torch.rand(recipe.batch, generator=generator)[share] < recipe.label_drop
        labels = images.labels[chosen].masked_fill(dropped.to(device), recipe.net.classes)
    maps: tuple[Tensor, ...] = ()
    if recipe.augment:
        maps = (draw_maps(recipe.batch, recipe.augment, generator)[share].to(device),)
        y_0 = apply_maps(y_0, *maps)
    with _dropout(recipe, generator, device):
        losses = trainable.losses(y_0, s, z, labels, *maps)
    trainable.optimiser.zero_grad(set_to_none=True)
    losses.mean().backward()
    nn.utils.clip_grad_norm_(trainable.model.net.parameters(), recipe.clip)
    trainable.optimiser.step()
    return levels, distributed.gathered(losses.detach()).flatten().cpu()
