"""Feature extractors: small classifiers in safetensors files, known by the hash of their file."""

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
from ablate.nets.classifier import Classifier
from ablate.nets.inception import Inception


def normalised(pixels: Tensor) -> Tensor:
    """uint8 -> [-1, 1], in the layout convolutions like."""
    return (pixels.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


class Extractor(NamedTuple):
    name: str
    hash: str
    net: Classifier | Inception
    card: dict[str, Any]  # arguments, dataset, accuracy, command
    resize: str = "none"  # how images are brought to the network's size
    prepare: Callable[[Tensor], Tensor] = normalised  # uint8 -> what the network takes
    batch: int = 256


@torch.no_grad()
def extract(
    extractor: Extractor, pixels: Tensor, progress: Callable[[int], None] = lambda images: None
) -> Tensor:
    """uint8 images, [N, C, H, W] -> features, [N, f], float32; `progress` is told each batch."""
    found = []
    for part in pixels.split(extractor.batch):
        found.append(extractor.net.features(extractor.prepare(part)))
        progress(len(part))
    return torch.cat(found)


def save_extractor(path: Path, net: Classifier, card: dict[str, Any]) -> None:
    weights = {name: value.contiguous() for name, value in net.state_dict().items()}
    with whole_file(path) as scratch:
        save_file(weights, scratch, {"ablate": json.dumps(card)})


def shipped_path(dataset: str) -> Path:
    return ZOO / f"{dataset}-features.safetensors"


def find_extractor(dataset: str, own: Path, wanted: str | None = None) -> Extractor:
    """The dataset's classifier: one's own in the folder `own`, else the shipped one; or whichever
    of them has the hash `wanted`."""
    paths = [own / f"{dataset}-features.safetensors", shipped_path(dataset)]
    there = [path for path in paths if path.is_file()]
    for path in there:
        if wanted in (None, file_hash(path)):
            return load_extractor(path)
    if there:
        found = ", ".join(f"{path} is {file_hash(path)}" for path in there)
        raise UserError(f"the features were made by extractor {wanted}; {found}")
    raise UserError(f"{dataset} has no classifier; make it with ablate train-features {dataset}")


def load_extractor(path: Path) -> Extractor:
    try:
        with safe_open(path, "pt") as file:
            card = json.loads((file.metadata() or {})["ablate"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        net = Classifier(**card["net"])
        net.load_state_dict(weights)
    except FileNotFoundError:
        raise UserError(
            f"extractor {path}: not there; make it with ablate train-features"
        ) from None
    except (SafetensorError, OSError, KeyError, TypeError, RuntimeError, ValueError) as error:
        raise UserError(f"extractor {path}: cannot be read ({type(error).__name__})") from None
    net = net.to(memory_format=torch.channels_last).eval()
    return Extractor(path.stem, file_hash(path), net, card)
