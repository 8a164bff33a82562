"""From a dataset to a feature extractor: train its classifier and write the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ablate.core.provenance import versions
from ablate.data.datasets import load
from ablate.data.registry import DATASETS, ClassifierRecipe
from ablate.metrics.extractors.extractor import save_extractor
from ablate.training.classifier import train_classifier


def classifier_recipe(dataset: str, epochs: int | None = None) -> ClassifierRecipe:
    """How the dataset's classifier is trained, for another number of epochs if given."""
    recipe = DATASETS[dataset].classifier
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
