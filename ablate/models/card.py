"""The card of a bundle: its description, as JSON in its file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ablate.core.validation import not_finite
from ablate.models.recipe import Recipe


class Steps(BaseModel):
    """What k means to a network that is conditioned on it: s = sigma √(k/N)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sigma: float = Field(gt=0)
    N: int = Field(ge=3)


Channels = Annotated[int, Field(ge=1, le=16)]
Side = Annotated[int, Field(ge=1, le=1024)]


class Card(BaseModel):
    """The description of a bundle, in its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    name: str
    dataset: str
    dataset_hash: str
    shape: tuple[Channels, Side, Side]
    s_min: float = Field(gt=0)
    s_max: float = Field(gt=0)
    recipe: Recipe
    extractor: str  # hash of the classifier that made the features
    licence: str
    note: str = ""
    training_images: int | None = None  # of the dataset; the shipped bundles do not say
    steps: Steps | None = None  # of a network that is conditioned on k instead of log s
    provenance: dict[str, Any]  # command, versions, images seen, seconds, held-out errors
    content: str | None = None  # hash of the tensors; bundles of versions before 0.2 have none

    @model_validator(mode="after")
    def _sound(self) -> Card:
        if (where := not_finite(self.model_dump(exclude={"provenance"}))) is not None:
            raise ValueError(f"{where} is not a finite number")
        if not self.s_min < self.s_max:
            raise ValueError(f"s_min = {self.s_min:g} is not below s_max = {self.s_max:g}")
        return self
