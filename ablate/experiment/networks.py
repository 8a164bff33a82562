"""The networks that a study samples: the bundle's own, or those that it trains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data import datasets
from ablate.experiment.watcher import Watcher
from ablate.generate.settings import Settings
from ablate.models.bundle import Bundle, Card
from ablate.models.recipe import Recipe
from ablate.study.definition import Study
from ablate.tracking.vocabulary import MODEL, TRAINING_RUN, TRAINING_SEED
from ablate.training.pack import read_recipe
from ablate.training.store import Store
from ablate.training.variants import SNAPSHOTS, Variant, variant_of

MOST_LOADED = 8
"""Networks that a worker keeps in memory."""


class Training(NamedTuple):
    """What a study trains its networks by."""

    name: str  # of the recipe
    recipe: Recipe  # before a configuration changes it
    dataset: datasets.Dataset
    store: Store
    workspace: Workspace

    def variant(self, settings: Settings) -> Variant:
        """The training of a configuration, with the recipe's own seed."""
        return variant_of(self.recipe, dict(settings.training))

    @property
    def hash(self) -> str:
        """Hash of the recipe and the dataset."""
        return self.store.key(Variant(self.recipe))


def training_of(study: Study, card: Card, workspace: Workspace, device: str) -> Training | None:
    """What the study trains by, None if it samples the bundle's network; an error if the recipe is
    not for the bundle's images."""
    if not study.recipe:
        return None
    path = workspace.find_toml(study.recipe, "train")
    recipe = read_recipe(path)
    if recipe.dataset != card.dataset:
        raise UserError(
            f"recipe = {study.recipe!r} trains on {recipe.dataset}, bundle {card.name} is of"
            f" {card.dataset}"
        )
    dataset = datasets.load(recipe.dataset)
    if dataset.hash() != card.dataset_hash:
        raise UserError(f"bundle {card.name} is of other images than {recipe.dataset} here")
    if study.values("train.ema_length") and not recipe.snapshots:
        recipe = recipe.model_copy(update={"snapshots": SNAPSHOTS})
    store = Store(workspace, path.stem, dataset, device)
    return Training(path.stem, recipe, dataset, store, workspace)


def card_of(training: Training | None, card: Card, settings: Settings) -> Card:
    """The card of a configuration's network; what is not the network's, such as the dataset, is as
    in the bundle's card."""
    if training is None:
        return card
    recipe = training.variant(settings).recipe
    low, high = recipe.noise_range()
    name = f"{card.name} by recipe {training.name}"
    return card.model_copy(update={"name": name, "recipe": recipe, "s_min": low, "s_max": high})


class Network(NamedTuple):
    """The network of one cell, in the bundle that gives everything else."""

    bundle: Bundle
    training_seed: int | None = None  # None: the bundle's own network
    about: tuple[tuple[str, str], ...] = ()  # tags: its hash, the run of its training

    @property
    def cell_tags(self) -> dict[str, str]:
        """Tags of the cell that samples it."""
        return {**dict(self.about), TRAINING_SEED: str(self.training_seed)}

    @property
    def trial_tags(self) -> dict[str, str]:
        """Tags of the cell's trial, whose other cells may have other networks."""
        return {f"{tag}.{self.training_seed}": value for tag, value in self.about}


class Networks:
    """The networks of a study's cells, for one worker; trained when they are first needed."""

    def __init__(
        self, study: Study, bundle: Bundle, training: Training | None, watcher: Watcher
    ) -> None:
        self._study, self._bundle, self._training = study, bundle, training
        self._watcher = watcher
        self._loaded: dict[str, Network] = {}  # by file, the last used at the end

    def is_there(self, settings: Settings, seed: int) -> bool:
        """Whether the network of a configuration need not be trained first."""
        if self._training is None:
            return True
        variant = self._training.variant(settings).with_seed(self._study.training_seed(seed))
        return self._training.store.is_trained(variant)

    def of(self, settings: Settings, seed: int) -> Network:
        """The network of a configuration that is sampled with `seed`."""
        if self._training is None:
            return Network(self._bundle)
        base, wanted = self._training.variant(settings), self._study.training_seed(seed)
        variant = base.with_seed(wanted)
        place = str(self._training.store.path(variant))
        used = dict.fromkeys(map(self._study.training_seed, self._study.seeds))
        others = (base.with_seed(other) for other in used if other != wanted)
        found = self._loaded.pop(place, None) or self._read(variant, others)
        self._loaded[place] = found
        if len(self._loaded) > MOST_LOADED:
            self._loaded.pop(next(iter(self._loaded)))
        return found

    def _read(self, variant: Variant, meanwhile: Iterable[Variant]) -> Network:
        assert self._training is not None
        stored = self._training.store.get(
            variant, meanwhile, lambda step, loss: self._watcher.trained(step)
        )
        trained = stored.bundle
        bundle = self._bundle._replace(model=trained.model, card=trained.card)
        run = ((TRAINING_RUN, stored.run_id),) if stored.run_id else ()
        return Network(bundle, variant.recipe.seed, ((MODEL, stored.hash), *run))
