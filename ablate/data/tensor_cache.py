"""A cache of tensors in files: each is computed once and written whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ablate.core.files import waiting, whole_file

Tensors = dict[str, Tensor]


def cache_folder() -> Path:
    """The folder of the cache: ABLATE_CACHE, or one in the user's cache."""
    return Path(os.environ.get("ABLATE_CACHE", "~/.cache/ablate/features")).expanduser()


def cached_tensors(
    path: Path, compute: Callable[[], Tensors], valid: Callable[[Tensors], bool] = lambda _: True
) -> Tensors:
    """The tensors in a file; if it is missing, broken or not `valid`, compute and write them.

    If several processes ask at once, one computes and the others wait.
    """
    if (cached := _read(path, valid)) is not None:
        return cached
    with waiting(path.with_suffix(".lock")):
        if (cached := _read(path, valid)) is not None:  # another process may have written it
            return cached
        computed = compute()
        with whole_file(path) as scratch:
            save_file({name: each.contiguous() for name, each in computed.items()}, scratch)
        return computed


def _read(path: Path, valid: Callable[[Tensors], bool]) -> Tensors | None:
    """The tensors in a file, or None if it is missing, broken or not valid."""
    try:
        tensors: Tensors = load_file(path)
        return tensors if valid(tensors) else None
    except (OSError, KeyError, SafetensorError):
        return None
