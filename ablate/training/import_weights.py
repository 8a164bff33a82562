"""Make a bundle of a network that was trained elsewhere, so that it can be ablated like our own.

Its weights have our names or those of a public code base. The dataset must be on this machine: a
bundle contains its moments and features.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from ablate.core.errors import UserError
from ablate.data.datasets import load
from ablate.diffusion.moments import Moments
from ablate.generate.mixtures import mixture_of
from ablate.metrics.extractors.extractor import Extractor
from ablate.models import bundle as bundles
from ablate.models.recipe import Recipe
from ablate.nets.by_step import ByStep
from ablate.nets.precondition import Model
from ablate.training import public_layouts
from ablate.training.fitted_moments import moments_of
from ablate.training.heldout import heldout_error
from ablate.training.pack import card_of, provenance_of, split_features
from ablate.training.weight_files import Weights, read_weights


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
    key: the part of the file, if it has several.
    """
    read = read_weights(weights, key)
    dataset = load(recipe.dataset)
    moments = moments_of(dataset, recipe)
    try:
        recipe = _with_options(recipe, read)
        model = _loaded(dataset.shape, recipe, moments, steps, read)
    except ValueError as error:
        raise UserError(f"weights {weights}: do not fit the network named ({error})") from None
    levels = noise_range(recipe, steps)
    errors = heldout_error(model.eval(), dataset, "cpu", levels)
    provenance = provenance_of(f"ablate bundle import {weights.name}", model, errors)
    provenance |= {"weights": read.part} if read.part else {}
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


def _with_options(recipe: Recipe, weights: Weights) -> Recipe:
    """The recipe of the variant of its network that the weights are of."""
    options = public_layouts.options_of(weights.tensors, recipe.net)
    return recipe.model_copy(update={"net": recipe.net.model_copy(update={"options": options})})


def _loaded(
    shape: tuple[int, int, int],
    recipe: Recipe,
    moments: Moments,
    steps: bundles.Steps | None,
    weights: Weights,
) -> Model:
    """The recipe's model with the weights; a ValueError if they do not fit."""
    rows = recipe.net.options.get("table")
    if steps is not None and rows not in (None, steps.N):
        raise ValueError(f"its tables have {rows} rows, one for each step: --N {rows}")
    model = bundles.build_model(shape, recipe, moments, steps)
    net: nn.Module = model.net.net if isinstance(model.net, ByStep) else model.net
    net.load_state_dict(public_layouts.in_our_names(weights.tensors, net))
    return model
