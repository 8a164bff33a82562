"""Trained networks by what they were trained from: each is trained once, and shared.

A training is a function of its recipe, its seed and the dataset. The hash of these names its files
under `mlruns/trained`: the bundle, and the checkpoint while it is trained, or for as long as its
snapshots can give averages of other lengths. Studies, trials and workers that need the same network
wait for the one that trains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ablate.core.files import if_free, waiting
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset
from ablate.metrics.extractors.extractor import find_extractor
from ablate.models import bundle as bundles
from ablate.models.bundle import Bundle
from ablate.tracking.vocabulary import training_key
from ablate.tracking.writer import Tracker
from ablate.training.clock import every
from ablate.training.loop import Progress
from ablate.training.mlflow_log import logged
from ablate.training.options import Options
from ablate.training.pack import make_bundle
from ablate.training.variants import Variant

CHECKPOINT_SECONDS = 30.0
"""Time between checkpoints: less than of `ablate train`, because trainings of studies are short."""


class Stored(NamedTuple):
    """A network of the store."""

    bundle: Bundle
    hash: str  # of its weights and moments
    run_id: str | None  # of its training in MLflow; None if that could not be logged


class Store:
    """The networks that are trained by variants of one recipe."""

    def __init__(self, workspace: Workspace, name: str, dataset: Dataset, device: str) -> None:
        """name: of the recipe, and so of the experiment in MLflow."""
        self._workspace, self._name = workspace, name
        self._dataset, self._device = dataset, device
        self._extractor = find_extractor(dataset.name, workspace.bundles)

    def key(self, variant: Variant) -> str:
        """The hash that names the training; its average does not matter."""
        return training_key(variant.identity(self._dataset))

    def path(self, variant: Variant) -> Path:
        """The bundle's file, whether it is there or not."""
        length = variant.ema_length
        ending = "" if length is None else f"-ema{length:g}"
        return self._folder / f"{self.key(variant)}{ending}.safetensors"

    def is_trained(self, variant: Variant) -> bool:
        """Whether no training is needed: there is the bundle, or a finished training's other
        average with its snapshots."""
        other = self.path(variant._replace(ema_length=None))
        return self.path(variant).exists() or (
            other.exists() and self._checkpoint(variant).exists()
        )

    def get(
        self,
        variant: Variant,
        meanwhile: Iterable[Variant] = (),
        progress: Progress = lambda step, loss: None,
    ) -> Stored:
        """The network of a variant: from its file, or trained now, or by another process for which
        this one waits.

        meanwhile: networks that will be needed next, to train in place of waiting.
        """
        path = self.path(variant)
        for each in (variant, *meanwhile):
            if not path.exists():
                with if_free(self._lock(each)) as free:
                    if free and not self.path(each).exists():
                        self._train(each, progress)
        if not path.exists():
            with waiting(self._lock(variant)):
                if not path.exists():  # the other process was stopped
                    self._train(variant, progress)
        bundle = bundles.read(path)
        return Stored(bundle, str(bundle.card.content)[:16], self._run(variant))

    def _lock(self, variant: Variant) -> Path:
        """The file that a process locks while it trains the variant."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f".{self.key(variant)}.lock"

    def _train(self, variant: Variant, progress: Progress) -> None:
        """Train the network, or continue, and write it with the average that the variant asks for.

        The average by the recipe's gamma is written too: it shows that the training is finished.
        """
        recipe, checkpoint = variant.recipe, self._checkpoint(variant)
        plain, name = variant._replace(ema_length=None), f"{self._name} {self.key(variant)}"
        due = None if recipe.checkpoint_every else every(CHECKPOINT_SECONDS)
        options = Options(variant.minutes, due=due)
        parts = recipe, self._dataset, self._extractor, checkpoint
        what, made_by = variant.identity(self._dataset), f"ablate study (recipe {self._name})"
        with logged(self._workspace, self._name, recipe, options, self._device, what) as watch:
            for each in (plain, variant):
                if not self.path(each).exists():
                    given = options._replace(ema_length=each.ema_length)
                    where = self.path(each), self._device
                    make_bundle(name, *parts, *where, progress, given, watch, made_by)
        if not recipe.snapshots:
            checkpoint.unlink(missing_ok=True)

    def _run(self, variant: Variant) -> str | None:
        """The run of the training. A process that was killed between writing the network and
        closing the run left it RUNNING; it is closed now."""
        tracker, key = Tracker(self._workspace), self.key(variant)
        run = tracker.find_training(self._name, key)
        if run is not None and run.info.status == "RUNNING":
            with waiting(self._lock(variant)):  # which a process that trains it holds until then
                tracker.close(run.info.run_id, "complete")
        return None if run is None else str(run.info.run_id)

    def _checkpoint(self, variant: Variant) -> Path:
        return self._folder / f"{self.key(variant)}.pt"

    @property
    def _folder(self) -> Path:
        return self._workspace.mlruns / "trained"
