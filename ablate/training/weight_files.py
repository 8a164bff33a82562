"""State dicts in files of other programs: safetensors, or what `weights_only` reads.

Nothing is ever unpickled. Checkpoints of NCSN are lists (state dict, optimiser, epoch, step, and
an average of the weights by name); those of score_sde are dicts with `model` and `ema`, whose
average is a list in the order of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ablate.core.errors import UserError

WHOLE, MODEL, AVERAGE = "", "model", "ema"
"""Names of the parts of a file: all of it, the trained weights, their average."""

MODELS = (MODEL, "state_dict", "model_state_dict")
"""Names that programs give to the trained weights."""


class Weights(NamedTuple):
    """A state dict with the part of the file that it is."""

    tensors: dict[str, Tensor]
    part: str


def read_weights(path: Path, key: str | None = None) -> Weights:
    """The state dict in a file. `key` selects a part; the default is an average of the weights,
    or else the only state dict."""
    content = _read(path)
    try:
        parts = _parts(content)
    except ValueError as error:
        raise UserError(f"weights {path}: {error}") from None
    chosen = _default(parts) if key is None else key
    if chosen is None or chosen not in parts:
        wrong = "not a state dict" if key is None else f"no state dict called {key!r}"
        names = ", ".join(parts or _names(content))
        raise UserError(f"weights {path}: {wrong}; try --key with one of: {names}")
    return Weights(parts[chosen], chosen)


def _read(path: Path) -> Any:
    """What the file contains: tensors, numbers and text in lists and dicts."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise UserError(f"weights {path}: no such file") from None
    except Exception as error:  # the readers may raise anything on a file of another program
        kind = "a safetensors file" if isinstance(error, SafetensorError) else "a state dict"
        raise UserError(f"weights {path}: cannot be read as {kind}; never unpickled") from None


def _names(content: Any) -> list[str]:
    return [str(key) for key in content] if isinstance(content, dict) else [type(content).__name__]


def _parts(content: Any) -> dict[str, dict[str, Tensor]]:
    """The state dicts of a file by name, none of them under the names of DataParallel."""
    if _is_state_dict(content):
        return {WHOLE: _plain(content)}
    if isinstance(content, (list, tuple)):
        first, last = (content[0], content[-1]) if content else (None, None)
        content = {MODEL: first} | ({AVERAGE: last} if len(content) > 1 else {})
    if not isinstance(content, dict):
        return {}
    parts = {str(name): _plain(v) for name, v in content.items() if _is_state_dict(v)}
    model = next((parts[name] for name in MODELS if name in parts), {})
    for name, value in content.items():
        if isinstance(value, dict) and "shadow_params" in value:
            parts[str(name)] = _averaged(model, value["shadow_params"])
        elif str(name).startswith(AVERAGE) and name in parts:
            parts[name] = model | parts[name]  # an average has no buffers
    return parts


def _is_state_dict(content: Any) -> bool:
    if not isinstance(content, dict) or not content:
        return False
    return all(isinstance(k, str) and isinstance(v, Tensor) for k, v in content.items())


def _plain(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix("module."): value for name, value in named.items()}


def _averaged(model: Mapping[str, Tensor], shadows: Any) -> dict[str, Tensor]:
    """The model with averages in place of its trained tensors, which come in the same order.

    Not averaged are buffers and what is not trained: by structure the levels `sigmas` and the
    frequencies of a Fourier embedding.
    """
    trained = [name for name, value in model.items() if not _is_fixed(name, value)]
    if not isinstance(shadows, list) or not all(isinstance(v, Tensor) for v in shadows):
        raise ValueError("shadow_params is not a list of tensors")
    if len(shadows) != len(trained):
        raise ValueError(f"{len(shadows)} shadow_params for {len(trained)} tensors of the model")
    for name, value in zip(trained, shadows, strict=True):
        if value.shape != model[name].shape:
            shapes = f"{tuple(value.shape)} for {tuple(model[name].shape)}"
            raise ValueError(f"shadow_params are in another order: {shapes} at {name}")
    return dict(model) | dict(zip(trained, shadows, strict=True))


def _is_fixed(name: str, value: Tensor) -> bool:
    last = name.rpartition(".")[2]
    return last == "sigmas" or (last == "W" and value.ndim == 1)


def _default(parts: Mapping[str, object]) -> str | None:
    """The average if there is one, else the only state dict."""
    averages = [name for name in parts if name.startswith(AVERAGE)]
    return averages[0] if averages else next(iter(parts), None) if len(parts) == 1 else None
