"""Training a denoiser: a function of (recipe, step) alone, so that a resumed run is the same run.

Nothing is carried from step to step but weights, their average and the optimiser: batch order,
noise levels and noise of step k come from (seed, k).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ablate.bundle import Model, build_model
from ablate.data import Dataset, to_unit_interval_plus_one
from ablate.ema import PowerEMA
from ablate.errors import UserError
from ablate.files import whole_file
from ablate.moments import Moments, fit_moments
from ablate.objective import denoising_loss, noise_levels
from ablate.optimiser import make_optimiser
from ablate.recipe import Recipe

CHECKPOINT_STEPS = 250
EVALUATION_LEVELS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


class Trained(NamedTuple):
    model: Model  # with averaged weights
    moments: Moments
    heldout_error: dict[float, float]  # noise level -> mean squared error of D per pixel


def _generator(seed: int, purpose: str, index: int) -> torch.Generator:
    digest = hashlib.blake2b(f"train/{purpose}/{seed}/{index}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def batch_indices(seed: int, step: int, batch: int, size: int) -> Tensor:
    """Images of a step: consecutive pieces of one shuffle per epoch."""
    first, last = step * batch, (step + 1) * batch
    pieces = []
    for epoch in range(first // size, (last - 1) // size + 1):
        shuffle = torch.randperm(size, generator=_generator(seed, "order", epoch))
        pieces.append(shuffle[max(0, first - epoch * size) : last - epoch * size])
    return torch.cat(pieces)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then a cosine to zero."""
    warm = min(1.0, (step + 1) / max(1, recipe.warmup))
    return recipe.rate * warm * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))


def train(
    recipe: Recipe,
    dataset: Dataset,
    checkpoint: Path,
    device: str = "cpu",
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> Trained:
    """Run the recipe to its last step, from `checkpoint` if that is there."""
    x = to_unit_interval_plus_one(dataset.train.pixels)
    moments = fit_moments(x, dataset.train.labels, recipe.rank, recipe.class_rank)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = build_model(dataset.shape, recipe, moments.everything).to(device)
    optimiser = make_optimiser(model.net, recipe.rate, recipe.weight_decay)
    ema = PowerEMA(model.net, recipe.gamma)
    identity = f"{recipe.model_dump_json()} {dataset.hash()}"
    first = _resume(checkpoint, identity, model.net, ema, optimiser)
    y = x.log().to(device)
    for step in range(first, recipe.steps):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(recipe, step)
        loss = _step(recipe, model, optimiser, y, step)
        ema.update(model.net, step + 1)
        progress(step + 1, loss)
        if (step + 1) % CHECKPOINT_STEPS == 0 or step + 1 == recipe.steps:
            _save(checkpoint, identity, step + 1, model.net, ema, optimiser)
    model.net.load_state_dict(ema.weights)
    model.eval()
    return Trained(model, moments, heldout_error(model, dataset, device))


def _step(
    recipe: Recipe, model: Model, optimiser: torch.optim.Optimizer, y: Tensor, step: int
) -> float:
    generator = _generator(recipe.seed, "noise", step)
    y_0 = y[batch_indices(recipe.seed, step, recipe.batch, len(y)).to(y.device)]
    s = noise_levels(recipe, generator).to(y.device)
    z = torch.randn(y_0.shape, generator=generator).to(y.device)
    model.train()
    with torch.random.fork_rng(devices=[]):  # dropout draws from the global generator
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        loss = denoising_loss(model, y_0, s, z)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.net.parameters(), recipe.clip)
    optimiser.step()
    return float(loss.detach())


@torch.no_grad()
def heldout_error(model: Model, dataset: Dataset, device: str) -> dict[float, float]:
    """Mean squared error of D per pixel on held-out images, by noise level."""
    y_0 = to_unit_interval_plus_one(dataset.heldout.pixels[:2000]).log()
    errors = {}
    for index, s in enumerate(EVALUATION_LEVELS):
        z = torch.randn(y_0.shape, generator=_generator(0, "heldout", index))
        squares = [
            (
                (model((a + s * b).to(device), torch.full((len(a),), s, device=device)).cpu() - a)
                ** 2
            )
            for a, b in zip(y_0.split(256), z.split(256), strict=True)
        ]
        errors[s] = float(torch.cat(squares).mean())
    return errors


def _save(
    path: Path,
    identity: str,
    step: int,
    net: nn.Module,
    ema: PowerEMA,
    optimiser: torch.optim.Optimizer,
) -> None:
    state = {
        "identity": identity,
        "step": step,
        "net": net.state_dict(),
        "ema": ema.weights,
        "optimiser": optimiser.state_dict(),
    }
    with whole_file(path) as scratch:
        torch.save(state, scratch)


def _resume(
    path: Path, identity: str, net: nn.Module, ema: PowerEMA, optimiser: torch.optim.Optimizer
) -> int:
    """The number of steps already done; never unpickles (`weights_only`)."""
    if not path.exists():
        return 0
    try:
        state = torch.load(path, weights_only=True)
        same = state["identity"] == identity
    except Exception as error:  # whatever a foreign file makes of the reader
        kind = type(error).__name__
        raise UserError(f"checkpoint {path}: not one of ablate's ({kind}); remove it") from None
    if not same:
        raise UserError(
            f"checkpoint {path}: of another recipe or dataset; finish that one or remove the file"
        )
    net.load_state_dict(state["net"])
    ema.load(state["ema"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])
