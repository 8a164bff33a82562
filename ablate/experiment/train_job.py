"""Training the network of a cell in another process of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.core.workspace import Workspace
from ablate.experiment.networks import Networks, training_of
from ablate.experiment.prepare import Setup
from ablate.experiment.watcher import Unwatched
from ablate.generate.settings import Settings


@dataclass(frozen=True)
class TrainJob:
    """Trains the network that a configuration is sampled with into the store of networks, from
    which the one that asks reads it."""

    workspace: Workspace
    settings: Settings
    seed: int

    def __call__(self, setup: Setup) -> None:
        training = training_of(setup.study, setup.bundle.card, self.workspace, setup.device)
        Networks(setup.study, setup.bundle, training, Unwatched()).of(self.settings, self.seed)
