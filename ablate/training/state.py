"""Everything that a training carries from one step to the next, and saves in checkpoints."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ablate.models.recipe import Recipe
from ablate.training.ema import PowerEMA, Snapshots
from ablate.training.step import TrainableModel, TrainingImages, learning_rate, take_step


class TrainingState:
    """The weights, their averages and snapshots, the optimiser, and the number of steps done."""

    def __init__(self, recipe: Recipe, trainable: TrainableModel) -> None:
        self.recipe, self.trainable, self.step = recipe, trainable, 0
        self._net = trainable.model.net
        self._ema = PowerEMA(self._net, recipe.gamma)
        self._snapshots = Snapshots(self._net, recipe.steps, recipe.snapshots)

    def advance(self, images: TrainingImages) -> tuple[Tensor, Tensor]:
        """Take the next step; returns the noise levels and losses of its batch, both [B]."""
        for group in self.trainable.optimiser.param_groups:
            group["lr"] = learning_rate(self.recipe, self.step)
        levels, losses = take_step(self.recipe, self.trainable, images, self.step)
        self._ema.update(self._net, self.step + 1)
        self._snapshots.update(self._net, self.step + 1)
        self.step += 1
        return levels, losses

    def average(self, length: float | None = None) -> dict[str, Tensor]:
        """The averaged weights: by the recipe's gamma, or over a length (sigma_rel) from the
        snapshots."""
        return self._ema.weights if length is None else self._snapshots.average(length)

    def state(self) -> dict[str, Any]:
        """The contents of a checkpoint, but for the identity."""
        return {
            "step": self.step,
            "steps": self.recipe.steps,
            "plateau": self.recipe.plateau(),
            "net": self._net.state_dict(),
            "ema": self._ema.weights,
            "snapshots": self._snapshots.state(),
            "optimiser": self.trainable.optimiser.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.step = int(state["step"])
        self._net.load_state_dict(state["net"])
        self._ema.load(state["ema"])
        self._snapshots.load(state.get("snapshots", {"averages": [], "taken": []}))
        self.trainable.optimiser.load_state_dict(state["optimiser"])
