"""Checkpoints of a training: written whole or not at all, and read without unpickling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ablate.core.errors import UserError
from ablate.core.files import whole_file
from ablate.models.recipe import Recipe
from ablate.training import distributed


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write the state; the first of several processes does, for all of them."""
    if distributed.rank() == 0:
        with whole_file(path) as scratch:
            torch.save(state, scratch)


def load_checkpoint(path: Path, identity: str, device: str) -> dict[str, Any] | None:
    """The state of the training called `identity`, or None if there is no file.

    The first of several processes reads it and sends it to the others, whose devices differ.
    """
    if distributed.world_size() > 1:
        device = "cpu"
    first = distributed.rank() == 0
    return distributed.from_first(_load(path, identity, device) if first else None)


def _load(path: Path, identity: str, device: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    state = _read(path, device)
    if state["identity"] != identity:
        raise UserError(
            f"checkpoint {path}: of another recipe, dataset, --minutes or --from;"
            " finish that one or remove the file"
        )
    return state


def check_schedule(path: Path, saved: dict[str, Any] | None, recipe: Recipe) -> None:
    """Raise an error if a training with a constant rate is given other steps too late."""
    if saved is None or not recipe.decay or saved["steps"] == recipe.steps:
        return
    last = min(saved["plateau"], recipe.plateau())
    if saved["step"] > last:
        raise UserError(
            f"checkpoint {path}: at step {saved['step']}, where the rate should fall already;"
            f" `steps` and `decay` can be changed up to step {last}, or remove the file"
        )


def is_finished(path: Path) -> bool:
    """Whether the checkpoint is of the last step."""
    state = _read(path, "cpu")
    return bool(state["step"] == state.get("steps"))


def _read(path: Path, device: str) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        str(state["identity"]), int(state["step"])
    except Exception as error:  # the reader may raise anything on a file of another program
        kind = type(error).__name__
        raise UserError(f"checkpoint {path}: not one of ablate's ({kind}); remove it") from None
    return state
