"""Feature extractors: small classifiers in safetensors files, identified by the file's hash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.files import whole_file
from ablate.models.bundle import ZOO, file_hash
from ablate.models.digests import digest, require_listed
from ablate.nets.classifier import Classifier
from ablate.nets.inception import Inception


def normalised(pixels: Tensor) -> Tensor:
    """uint8 -> [-1, 1], in the memory layout that makes convolutions fast."""
    return (pixels.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


class Extractor(NamedTuple):
    """A network that makes features of images, and how images are prepared for it."""

    name: str
    hash: str
    net: Classifier | Inception
    card: dict[str, Any]  # arguments, dataset, accuracy, command
    resize: str = "none"  # how images are resized to the network's size
    prepare: Callable[[Tensor], Tensor] = normalised  # uint8 -> the network's input
    batch: int = 256
    device: str = "cpu"  # where the network is


@torch.no_grad()
def extract(
    extractor: Extractor, pixels: Tensor, progress: Callable[[int], None] = lambda images: None
) -> Tensor:
    """uint8 images, [N, C, H, W] -> features, [N, f], float32, on the CPU.

    progress: called with the number of images of each batch.
    """
    features = []
    for part in pixels.split(extractor.batch):
        images = extractor.prepare(part.to(extractor.device))
        features.append(extractor.net.features(images).cpu())
        progress(len(part))
    return torch.cat(features)


def save_extractor(path: Path, net: Classifier, card: dict[str, Any]) -> None:
    """Write a classifier and its card to a safetensors file."""
    weights = {name: value.contiguous() for name, value in net.state_dict().items()}
    with whole_file(path) as scratch:
        save_file(weights, scratch, {"ablate": json.dumps(card)})


def shipped_path(dataset: str) -> Path:
    """The file of the classifier that this package ships for a dataset."""
    return ZOO / f"{dataset}-features.safetensors"


def find_extractor(dataset: str, folder: Path, wanted: str | None = None) -> Extractor:
    """The dataset's classifier: the one in `folder` if there is one, else the shipped one.

    wanted: the hash that the classifier must have, or None.
    """
    paths = [folder / f"{dataset}-features.safetensors", shipped_path(dataset)]
    existing = [path for path in paths if path.is_file()]
    for path in existing:
        if wanted in (None, file_hash(path)):
            return load_extractor(path)
    if existing:
        hashes = ", ".join(f"{path} is {file_hash(path)}" for path in existing)
        raise UserError(f"the features were made by extractor {wanted}; {hashes}")
    raise UserError(f"{dataset} has no classifier; make it with ablate train-features {dataset}")


def load_extractor(path: Path) -> Extractor:
    """Read a classifier that `save_extractor` wrote."""
    if path.is_file():
        require_listed(path, digest(path))
    try:
        with safe_open(path, "pt") as file:
            card = json.loads((file.metadata() or {})["ablate"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        net = Classifier(**card["net"])
        net.load_state_dict(weights)
    except FileNotFoundError:
        raise UserError(
            f"extractor {path}: no such file; make it with ablate train-features"
        ) from None
    except (SafetensorError, OSError, KeyError, TypeError, RuntimeError, ValueError) as error:
        raise UserError(f"extractor {path}: cannot be read ({type(error).__name__})") from None
    for name, value in weights.items():
        if not bool(value.isfinite().all()):
            raise UserError(f"extractor {path}: {name} has values that are not finite")
    net = net.to(memory_format=torch.channels_last).eval()
    return Extractor(path.stem, file_hash(path), net, card)
