"""Make a bundle of a network that was trained elsewhere, so that it can be ablated like our own.

Its weights are a safetensors file or a state dict that `weights_only` reads; nothing is ever
unpickled. The dataset must be on this machine: a bundle contains its moments and features.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data.datasets import load, to_unit_interval_plus_one
from ablate.diffusion.moments import fit_moments
from ablate.generate.mixtures import mixture_of
from ablate.metrics.extractors.extractor import Extractor
from ablate.models import bundle as bundles
from ablate.models.recipe import Recipe
from ablate.nets.precondition import Model
from ablate.training.heldout import heldout_error
from ablate.training.pack import card_of, provenance_of, split_features


def read_weights(path: Path, key: str | None = None) -> dict[str, Tensor]:
    """The state dict in a file; `key` selects one of several."""
    try:
        content: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, weights_only=True, map_location="cpu")
        )
    except FileNotFoundError:
        raise UserError(f"weights {path}: no such file") from None
    except Exception as error:  # the readers may raise anything on a file of another program
        kind = "a safetensors file" if isinstance(error, SafetensorError) else "a state dict"
        raise UserError(f"weights {path}: cannot be read as {kind}; never unpickled") from None
    if key is not None:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        inside = (
            ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        )
        raise UserError(f"weights {path}: not a state dict; try --key with one of: {inside}")
    return {name.removeprefix("module."): value for name, value in content.items()}


def import_bundle(
    weights: Path,
    name: str,
    recipe: Recipe,
    extractor: Extractor,
    out: Path,
    steps: bundles.Steps | None = None,
    key: str | None = None,
) -> dict[float, float]:
    """Write the bundle; returns the held-out denoising error by noise level.

    steps: what k meant if the network is conditioned on k; None: it is conditioned on log s.
    """
    tensors = read_weights(weights, key)
    dataset = load(recipe.dataset)
    x = to_unit_interval_plus_one(dataset.train.pixels)
    moments = fit_moments(x, dataset.train.labels, recipe.rank, recipe.class_rank)
    model = bundles.build_model(dataset.shape, recipe, moments, steps)
    _load(model, tensors, weights, steps)
    levels = noise_range(recipe, steps)
    errors = heldout_error(model.eval(), dataset, "cpu", levels)
    provenance = provenance_of(f"ablate bundle import {weights.name}", model, errors)
    card = card_of(name, dataset, recipe, extractor.hash, levels, provenance, steps)
    features, mixture = split_features(extractor, dataset), mixture_of(dataset, moments)
    bundles.write(out, card, model, moments, features, mixture)
    return errors


def noise_range(recipe: Recipe, steps: bundles.Steps | None) -> tuple[float, float]:
    """(lowest, highest) noise level the network was trained on: of its steps, or of the recipe."""
    if steps is None:
        return recipe.noise_range()
    first, last = 1 / steps.N, (steps.N - 1) / steps.N
    return steps.sigma * first**0.5, steps.sigma * last**0.5


def _load(
    model: Model,
    tensors: dict[str, Tensor],
    path: Path,
    steps: bundles.Steps | None,
) -> None:
    net: Any = model.net if steps is None else model.net.net
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[min(1, len(lines) - 1)]
        raise UserError(f"weights {path}: do not fit the network named ({reason[:300]})") from None
