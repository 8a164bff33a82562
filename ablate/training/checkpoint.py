"""What a training is taken up from: read without unpickling, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ablate.core.errors import UserError
from ablate.core.files import whole_file


def save(path: Path, state: dict[str, Any]) -> None:
    with whole_file(path) as scratch:
        torch.save(state, scratch)


def load(path: Path, identity: str, device: str) -> dict[str, Any] | None:
    """The state of the training called `identity`, or None if there is no file."""
    if not path.exists():
        return None
    state = _read(path, device)
    if state["identity"] != identity:
        raise UserError(
            f"checkpoint {path}: of another recipe, dataset, --minutes or --from;"
            " finish that one or remove the file"
        )
    return state


def is_finished(path: Path) -> bool:
    state = _read(path, "cpu")
    return bool(state["step"] == state.get("steps"))


def _read(path: Path, device: str) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        str(state["identity"]), int(state["step"])
    except Exception as error:  # whatever a foreign file makes of the reader
        kind = type(error).__name__
        raise UserError(f"checkpoint {path}: not one of ablate's ({kind}); remove it") from None
    return state
