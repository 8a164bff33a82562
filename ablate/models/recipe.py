"""A training configuration: `studies/train/NAME.toml` as a validated, frozen model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Generator, Tensor

from ablate.models.objectives import OBJECTIVES
from ablate.nets.config import Net
from ablate.nets.registry import NETWORKS


class Recipe(BaseModel):
    """Everything that decides the weights of a training, but for the dataset's images."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    steps: int = Field(ge=1)
    batch: int = Field(128, ge=1)
    rate: float = Field(1e-3, gt=0)
    warmup: int = Field(100, ge=0)
    decay: int = Field(0, ge=0)  # last steps, in which a constant rate falls to zero; 0: a cosine
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(1.0, gt=0)
    gamma: float = Field(7.0, gt=0)  # of the power-function EMA
    snapshots: int = Field(
        0, ge=0
    )  # copies of two more averages, for a length chosen after training
    checkpoint_every: int = Field(0, ge=0)  # steps between checkpoints; 0: by the clock
    seed: int = 0
    s_min: float = Field(0.002, gt=0)
    s_max: float = Field(3.0, gt=0)
    focus: float = Field(0.0, ge=0, lt=1)  # on the middle of that range of levels; 0: log-uniform
    flips: bool = False  # mirror images with probability ½, where left and right are alike
    augment: float = Field(0.0, ge=0, le=1)  # share of images changed by small affine maps
    rank: int = Field(
        256, ge=0
    )  # of the covariance for preconditioning and initialisation; 0: EDM's
    class_rank: int = Field(64, ge=0)
    label_drop: float = Field(
        0.1, ge=0, le=1
    )  # share of labels that are dropped, if there are classes
    objective: str = "preconditioned"  # a name of the registry
    optimiser: Literal["muon", "adamw"] = "muon"  # muon: for inner convolutions, AdamW for the rest
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on CUDA alone
    net: Net = Net()

    @model_validator(mode="after")
    def _agree(self) -> Recipe:
        if not self.s_min < self.s_max:
            raise ValueError(f"s_min = {self.s_min:g} is not below s_max = {self.s_max:g}")
        if self.net.kind not in NETWORKS:
            raise ValueError(f"net.kind: {NETWORKS.unknown(self.net.kind)}")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective: {OBJECTIVES.unknown(self.objective)}")
        if OBJECTIVES[self.objective].needs_classes and not self.net.classes:
            raise ValueError(f"objective: {self.objective} needs net.classes above 0")
        if self.augment and not (self.net.augmented and self.net.kind == "compact"):
            raise ValueError("augment needs net.augmented = true and net.kind = 'compact'")
        if self.augment and not OBJECTIVES[self.objective].tells_maps:
            raise ValueError(f"augment: objective {self.objective} does not tell the network")
        return self

    def noise_range(self) -> tuple[float, float]:
        """(lowest, highest) level that training visits."""
        return OBJECTIVES[self.objective].noise_range(self)

    def noise_levels(self, generator: Generator) -> Tensor:
        """One level for each image of a batch, [B]."""
        return OBJECTIVES[self.objective].noise_levels(self, generator)

    def identity(self) -> str:
        """The recipe as JSON, by which checkpoints are matched.

        Fields that were added later are left out at their defaults, so that older checkpoints
        still match.
        """
        later = [
            "snapshots",
            "objective",
            "focus",
            "flips",
            "label_drop",
            "optimiser",
            "precision",
            "augment",
        ]
        exclude: dict[str, Any] = {name: True for name in later if _is_default(self, name)}
        exclude["checkpoint_every"] = True  # does not change the weights
        exclude["decay"] = True
        if self.decay:
            exclude["steps"] = True  # any number has the same plateau; see `check_schedule`
        of_net = ("kind", "width", "classes", "options", "augmented", "attention")
        exclude["net"] = {name for name in of_net if _is_default(self.net, name)}
        return self.model_dump_json(exclude=exclude)

    def plateau(self) -> int:
        """The last step at which the training can still be given another number of steps."""
        return max(0, self.steps - self.decay) if self.decay else 0


def _is_default(model: BaseModel, name: str) -> bool:
    return bool(getattr(model, name) == type(model).model_fields[name].default)
