"""From a dataset to the files that ship: train, measure, pack."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import torch
from pydantic import ValidationError

from ablate import bundle as bundles
from ablate.data import Dataset, load
from ablate.errors import UserError
from ablate.extractor import extract, load_extractor, save_extractor, shipped_path
from ablate.provenance import versions
from ablate.recipe import Recipe
from ablate.spec import one_line
from ablate.train import Trained, train
from ablate.train_features import RECIPES, ClassifierRecipe, train_classifier

MOST_FEATURES = 5000
"""Of each split in a bundle: 2 MB at 192 features. The protocol of a metric says how many."""


def read_recipe(path: Path) -> Recipe:
    try:
        return Recipe.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    except ValidationError as error:
        raise UserError(f"{path}: {one_line(error)}") from None


def make_bundle(
    name: str,
    recipe: Recipe,
    checkpoint: Path,
    out: Path,
    device: str = "cpu",
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> Trained:
    """Train (or go on training) by the recipe and write the bundle."""
    dataset = load(recipe.dataset)
    extractor = load_extractor(shipped_path(recipe.dataset))
    trained = train(recipe, dataset, checkpoint, device, progress)
    splits = {"train": dataset.train, "heldout": dataset.heldout}
    features = {
        split: extract(extractor, images.pixels[_chosen(len(images.pixels))])
        for split, images in splits.items()
    }
    card = _card(name, recipe, dataset, extractor.hash, trained)
    bundles.write(out, card, trained.model.cpu(), trained.moments, features)
    return trained


def _chosen(count: int) -> torch.Tensor:
    """Which images of a split stand for it in a bundle: the same ones every time."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    return order[:MOST_FEATURES]


def _card(
    name: str, recipe: Recipe, dataset: Dataset, extractor_hash: str, trained: Trained
) -> bundles.Card:
    return bundles.Card(
        format=bundles.FORMAT,
        name=name,
        dataset=dataset.name,
        dataset_hash=dataset.hash(),
        shape=dataset.shape,
        s_min=recipe.s_min,
        s_max=recipe.s_max,
        recipe=recipe,
        extractor=extractor_hash,
        licence=dataset.licence,
        note=dataset.note,
        provenance={
            "command": f"ablate train {name}",
            "parameters": sum(p.numel() for p in trained.model.net.parameters()),
            "images_seen": recipe.steps * recipe.batch,
            "heldout_error": {str(s): error for s, error in trained.heldout_error.items()},
            "versions": versions(),
        },
    )


def classifier_recipe(dataset: str, epochs: int | None = None) -> ClassifierRecipe:
    recipe = RECIPES[dataset]
    return recipe if epochs is None else recipe._replace(epochs=epochs)


def make_extractor(
    dataset_name: str,
    out: Path,
    epochs: int | None = None,
    progress: Callable[[int, float], None] = lambda epoch, loss: None,
) -> float:
    """Train the dataset's classifier and write it; returns its held-out accuracy."""
    dataset = load(dataset_name)
    recipe = classifier_recipe(dataset_name, epochs)
    trained = train_classifier(dataset, recipe, progress=progress)
    card = {
        "net": {
            "channels": dataset.shape[0],
            "classes": trained.net.head.out_features,
            "widths": recipe.widths,
            "patch": recipe.patch,
        },
        "dataset": dataset.name,
        "dataset_hash": dataset.hash(),
        "accuracy": trained.accuracy,
        "command": f"ablate train-features {dataset_name}",
        "versions": versions(),
    }
    save_extractor(out, trained.net, card)
    return trained.accuracy
