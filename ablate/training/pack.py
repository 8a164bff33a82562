"""From a dataset to a bundle: train, measure and write the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from ablate.core.bounded_toml import read_toml
from ablate.core.errors import UserError
from ablate.core.files import locked
from ablate.core.provenance import versions
from ablate.core.validation import one_line
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset, load
from ablate.generate.mixtures import mixture_of
from ablate.metrics.extractors.extractor import Extractor, extract
from ablate.models import bundle as bundles
from ablate.models.recipe import Recipe
from ablate.nets.precondition import Model
from ablate.training import distributed
from ablate.training.checkpoint import is_finished
from ablate.training.loop import Observer, Progress, Trained, train
from ablate.training.options import DEFAULTS, Options, WarmStart

MOST_IMAGES, MOST_BYTES = 5000, 2_880_000
"""Most images, and most bytes as float16, of each split's features in a bundle. The protocol of a
metric says how many there are."""


def read_recipe(path: Path) -> Recipe:
    """The recipe in a TOML file."""
    try:
        return Recipe.model_validate(read_toml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {one_line(error)}") from None


def warm_start(path: Path, recipe: Recipe) -> WarmStart:
    """The weights of a bundle to start from; it must have the same network and images."""
    bundle = bundles.read(path)
    card, shape = bundle.card, load(recipe.dataset).shape
    if card.shape != shape:
        theirs, ours = ("×".join(map(str, sides)) for sides in (card.shape, shape))
        raise UserError(f"--from {path}: for images of {theirs}, {recipe.dataset} has {ours}")
    net, wanted = _network(card.recipe), _network(recipe)
    if net != wanted or card.steps is not None:
        difference = "it is conditioned on k" if net == wanted else _difference(net, wanted)
        raise UserError(f"--from {path}: another network than the recipe's ({difference})")
    before = (card.provenance.get("images_seen", 0), card.provenance.get("hours", 0.0))
    return WarmStart(card.name, bundle.hash, bundle.model.net.state_dict(), *before)


def _network(recipe: Recipe) -> dict[str, object]:
    """The fields of a recipe that decide the shapes and the meaning of the weights."""
    return recipe.net.model_dump(exclude={"dropout"}) | {"objective": recipe.objective}


def _difference(theirs: Mapping[str, object], ours: Mapping[str, object]) -> str:
    pairs = ((key, theirs.get(key), ours[key]) for key in ours)
    return ", ".join(f"{key} = {a}, not {b}" for key, a, b in pairs if a != b)


def make_options(
    recipe: Recipe,
    minutes: float | None,
    start: str | None,
    ema_length: float | None,
    workspace: Workspace,
) -> Options:
    """The options of `ablate train`; `start` names the bundle to start from."""
    weights = None if start is None else warm_start(bundles.find(start, workspace), recipe)
    return Options(minutes, weights, ema_length)


@contextmanager
def locked_training(checkpoint: Path, name: str) -> Iterator[bool]:
    """Hold the lock of the training called `name`; yields whether this process is its first."""
    if distributed.rank() > 0:
        yield False
        return
    with locked(checkpoint.with_suffix(".lock"), f"{name} is being trained"):
        yield True


def is_done(target: Path, checkpoint: Path, recipe: Recipe, options: Options, again: bool) -> bool:
    """Whether the bundle is finished, so that there is nothing to train.

    An unfinished checkpoint is to be continued. A finished one remains if it has snapshots, from
    which an average of another length can be packed. `again` removes it.
    """
    finished = checkpoint.exists() and is_finished(checkpoint)
    if not target.exists() or (checkpoint.exists() and not finished):
        return False
    if again:
        checkpoint.unlink(missing_ok=True)
        return False
    if finished and options.ema_length is not None:
        return False
    theirs = bundles.read_card(target).recipe.model_dump()
    ours = recipe.model_dump() | ({"steps": theirs["steps"]} if options.minutes else {})
    if theirs != ours:
        what = _difference(theirs, ours)
        raise UserError(f"{target} is of another recipe ({what}); --again replaces it")
    if options.ema_length is not None:
        raise UserError(
            f"--ema-length {options.ema_length:g}: {target} is finished and {checkpoint}, with"
            " its snapshots, is gone; --again trains anew"
        )
    return True


def make_bundle(
    name: str,
    recipe: Recipe,
    dataset: Dataset,
    extractor: Extractor,
    checkpoint: Path,
    out: Path,
    device: str = "cpu",
    progress: Progress = lambda step, loss: None,
    options: Options = DEFAULTS,
    watch: Observer | None = None,
    made_by: str = "",
    hours: Callable[[], float] | None = None,
) -> Trained:
    """Train by the recipe, or continue; the first of several processes writes the bundle.

    made_by: what to note in place of a command; hours: how long it took in all, to note, too.
    """
    trained = train(recipe, dataset, checkpoint, device, progress, options, watch)
    if distributed.rank() == 0:
        command = made_by or _command(name, options)
        card = _card(name, dataset, extractor.hash, trained, options.start, command)
        if hours is not None:
            before = 0.0 if options.start is None else options.start.hours
            took = {
                "hours": round(before + hours(), 2),
                "cpu_threads": torch.get_num_threads(),
            }
            card = card.model_copy(update={"provenance": card.provenance | took})
        features = split_features(extractor, dataset, options.features)
        mixture = mixture_of(dataset, trained.moments)
        bundles.write(out, card, trained.model.cpu(), trained.moments, features, mixture)
    return trained


def split_features(
    extractor: Extractor, dataset: Dataset, count: int | None = None
) -> dict[str, torch.Tensor]:
    """Features of each split: of `count` of its images, at most and by default of as many thousands
    as a bundle may contain."""
    splits = {"train": dataset.train, "heldout": dataset.heldout}
    fit = MOST_BYTES // (2 * extractor.net.width)
    most = min(MOST_IMAGES, fit - fit % 1000, count or MOST_IMAGES)
    return {
        split: extract(extractor, images.pixels[_order(len(images.pixels))[:most]])
        for split, images in splits.items()
    }


def _order(count: int) -> torch.Tensor:
    """The order in which images of a split are chosen, always the same."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))


def _command(name: str, options: Options) -> str:
    """The command line that made the bundle."""
    flags = {
        "--minutes": options.minutes,
        "--from": options.start and options.start.name,
        "--ema-length": options.ema_length,
        "--features": options.features,
    }
    given = [f" {flag} {value}" for flag, value in flags.items() if value is not None]
    return f"ablate train {name}" + "".join(given)


def _card(
    name: str,
    dataset: Dataset,
    extractor_hash: str,
    trained: Trained,
    start: WarmStart | None,
    command: str,
) -> bundles.Card:
    """The card of a trained bundle."""
    recipe = trained.recipe
    before = 0 if start is None else start.images_seen
    more: dict[str, Any] = {"images_seen": before + recipe.steps * recipe.batch}
    if (unlabelled := trained.unlabelled_error) is not None:
        more |= {"unlabelled_error": {str(s): error for s, error in unlabelled.items()}}
    if start is not None:
        more |= {"started_from": f"{start.name} {start.hash}", "images_seen_before": before}
    provenance = provenance_of(command, trained.model, trained.heldout_error)
    return card_of(name, dataset, recipe, extractor_hash, recipe.noise_range(), provenance | more)


def provenance_of(
    command: str, model: Model, heldout_error: Mapping[float, float]
) -> dict[str, Any]:
    """How a bundle was made, for its card."""
    return {
        "command": command,
        "parameters": sum(p.numel() for p in model.net.parameters()),
        "heldout_error": {str(s): error for s, error in heldout_error.items()},
        "versions": versions(),
    }


def card_of(
    name: str,
    dataset: Dataset,
    recipe: Recipe,
    extractor_hash: str,
    levels: tuple[float, float],
    provenance: dict[str, Any],
    steps: bundles.Steps | None = None,
) -> bundles.Card:
    """The card of a network that was trained on noise levels from `levels[0]` to `levels[1]`."""
    return bundles.Card(
        format=bundles.FORMAT,
        name=name,
        dataset=dataset.name,
        dataset_hash=dataset.hash(),
        shape=dataset.shape,
        s_min=levels[0],
        s_max=levels[1],
        recipe=recipe,
        extractor=extractor_hash,
        licence=dataset.licence,
        note=dataset.note,
        training_images=len(dataset.train.pixels),
        steps=steps,
        provenance=provenance,
    )
