"""All that goes from one step of training to the next: weights, their averages, the optimiser."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ablate.models.recipe import Recipe
from ablate.training.ema import PowerEMA, Snapshots
from ablate.training.step import Examples, Learner, learning_rate, take_step


class TrainingState:
    def __init__(self, recipe: Recipe, learner: Learner) -> None:
        self.recipe, self.learner = recipe, learner
        self._net = learner.model.net
        self._ema = PowerEMA(self._net, recipe.gamma)
        self._snapshots = Snapshots(self._net, recipe.steps, recipe.snapshots)

    def advance(self, examples: Examples, step: int) -> tuple[Tensor, Tensor]:
        """Step number `step`, from 0; the batch's noise levels and losses, both [B]."""
        for group in self.learner.optimiser.param_groups:
            group["lr"] = learning_rate(self.recipe, step)
        told = take_step(self.recipe, self.learner, examples, step)
        self._ema.update(self._net, step + 1)
        self._snapshots.update(self._net, step + 1)
        return told

    def average(self, length: float | None = None) -> dict[str, Tensor]:
        """Averaged weights, by the recipe's gamma or of a length that snapshots are put together
        to."""
        return self._ema.weights if length is None else self._snapshots.average(length)

    def state(self) -> dict[str, Any]:
        return {
            "net": self._net.state_dict(),
            "ema": self._ema.weights,
            "snapshots": self._snapshots.state(),
            "optimiser": self.learner.optimiser.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._net.load_state_dict(state["net"])
        self._ema.load(state["ema"])
        self._snapshots.load(state.get("snapshots", {"averages": [], "taken": []}))
        self.learner.optimiser.load_state_dict(state["optimiser"])
