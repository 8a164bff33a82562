"""A training configuration: `studies/train/NAME.toml` as a validated, frozen model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Net(BaseModel):
    """Arguments of the Compact network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    widths: tuple[int, ...] = (48, 96)
    blocks: int = Field(2, ge=1)
    patch: int = Field(1, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)


class Recipe(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    steps: int = Field(ge=1)
    batch: int = Field(128, ge=1)
    rate: float = Field(1e-3, gt=0)
    warmup: int = Field(100, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(1.0, gt=0)
    gamma: float = Field(7.0, gt=0)  # of the power-function EMA
    seed: int = 0
    s_min: float = Field(0.002, gt=0)
    s_max: float = Field(3.0, gt=0)
    rank: int = Field(256, ge=0)  # of the covariance that preconditions and starts; 0 is EDM's
    class_rank: int = Field(64, ge=0)
    net: Net = Net()
