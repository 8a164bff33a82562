"""The configuration of a network: the `[net]` table of a training file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Option = str | int | float | bool


class Net(BaseModel):
    """A kind of network and its arguments. Each kind reads its own and ignores the others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = "compact"  # a name of the registry
    widths: tuple[Annotated[int, Field(ge=1)], ...] = Field((48, 96), min_length=1)  # compact
    blocks: int = Field(2, ge=1)  # compact and ddpm++: at each resolution
    patch: int = Field(1, ge=1)  # compact
    attention: int = Field(1, ge=0)  # compact: resolutions that attend, from the coarsest on
    dropout: float = Field(0.0, ge=0, lt=1)  # compact and ddpm++
    width: int = Field(128, ge=8)  # ncsn-deeper and ddpm++
    classes: int = Field(0, ge=0)  # number of labels to condition on; 0: none
    augmented: bool = False  # compact: whether it is told how a training image was augmented
    options: dict[str, Option] = Field(default_factory=dict)  # of one kind alone

    def read_options(self, **defaults: Option) -> dict[str, Any]:
        """The options, with defaults where they are not given; others are an error."""
        if unknown := sorted(set(self.options) - set(defaults)):
            known = ", ".join(defaults)
            raise ValueError(f"net.options: {self.kind} has no {unknown[0]!r}, it has {known}")
        return defaults | self.options
