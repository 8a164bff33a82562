"""A bundle: everything a study needs besides code, in one safetensors file.

It contains the weights (EMA, float16), the network's arguments, the noise range, the dataset's
name, hash and moments (the classes' directions as rotations of the shared ones), small-classifier
features of some of its images (float16), provenance and licence. It may contain a mixture of
Gaussians fitted to the images.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import NamedTuple

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save_file
from torch import Tensor, nn

from ablate.core.errors import UserError, first_line
from ablate.core.files import whole_file
from ablate.core.unknown_names import nearest
from ablate.core.validation import one_line
from ablate.core.workspace import PACKAGE, Workspace
from ablate.diffusion.mixture import Mixture
from ablate.diffusion.moments import Gaussian, Moments
from ablate.diffusion.processes import GBM
from ablate.models.card import Card as Card
from ablate.models.card import Steps as Steps
from ablate.models.digests import digest, require_listed
from ablate.models.objectives import OBJECTIVES
from ablate.models.recipe import Recipe
from ablate.models.score_model import ScoreModel
from ablate.nets.by_step import ByStep, check_condition
from ablate.nets.precondition import Model
from ablate.nets.registry import make_net

FORMAT, HASH = 1, 16
"""Of bundles' files: their format, and the hexadecimal digits that name one."""

ZOO = PACKAGE / "zoo"


class Bundle(NamedTuple):
    """A bundle that was read from its file."""

    card: Card
    hash: str  # of the file
    model: Model
    moments: Moments
    features: dict[str, Tensor]  # split -> [N, f]
    mixture: Mixture | None = None  # older bundles have none

    @property
    def score_model(self) -> ScoreModel:
        """The part that sampling needs."""
        return ScoreModel(self.model, self.moments, self.card.shape, self.card.recipe.net.classes)


def build_model(
    shape: tuple[int, int, int], recipe: Recipe, moments: Moments, steps: Steps | None = None
) -> Model:
    """The denoiser of a recipe for images of `shape`."""
    channels, objective = shape[0], OBJECTIVES[recipe.objective]
    net = make_net(recipe.net, objective.inputs * channels, channels)
    check_condition(net, steps is not None)
    if steps is not None:
        net = ByStep(net, GBM(steps.sigma), steps.N, continuous=True)
    model = objective.parametrise(net, moments)
    return model.to(memory_format=torch.channels_last)


def write(
    path: Path,
    card: Card,
    model: Model,
    moments: Moments,
    features: dict[str, Tensor],
    mixture: Mixture | None = None,
) -> None:
    """Write a bundle's file, whole or not at all."""
    tensors = _stored_weights(model.net)
    tensors |= {f"everything.{k}": v.float() for k, v in moments.everything._asdict().items()}
    for field in Gaussian._fields:
        stacked = torch.stack([getattr(gaussian, field) for gaussian in moments.classes]).float()
        tensors[f"classes.{field}"] = stacked
    tensors["classes.basis"] = (tensors["classes.basis"] @ tensors["everything.basis"].T).half()
    if moments.everything.tail > 0:
        # at low noise, where rounding would show, the tail dominates in every direction
        tensors["everything.basis"] = tensors["everything.basis"].half()
    tensors["class_averages"] = moments.class_averages.float()
    tensors |= {f"features.{split}": value.half() for split, value in features.items()}
    if mixture is not None:
        tensors |= {f"mixture.{name}": part.float() for name, part in mixture._asdict().items()}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    card = card.model_copy(update={"content": _digest(tensors)})
    with whole_file(path) as scratch:
        save_file(tensors, scratch, {"ablate": card.model_dump_json()})


def _stored_weights(net: nn.Module) -> dict[str, Tensor]:
    """The weights as float16; what is fixed (frequencies of log s) keeps its digits."""
    fixed = {name for name, value in net.named_parameters() if not value.requires_grad}
    tensors = net.state_dict().items()
    return {f"net.{name}": v.float() if name in fixed else v.half() for name, v in tensors}


def _digest(tensors: dict[str, Tensor]) -> str:
    """A hash of the names and bytes of tensors."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def shipped() -> dict[str, Path]:
    """The files of the bundles that come with the package, by name."""
    return _bundles(ZOO)


BESIDE = ("-features", "-images", "-inception", "-inception-train", "-inception-test")
"""Endings of the names of files beside bundles: classifiers, codes of the training images, and
features by the Inception."""


def _bundles(folder: Path) -> dict[str, Path]:
    files = sorted(folder.glob("*.safetensors"))
    return {path.stem: path for path in files if not path.stem.endswith(BESIDE)}


def available_bundles(workspace: Workspace) -> dict[str, Path]:
    """Files of bundles by name; one trained under this root replaces a shipped one of its name."""
    return dict(sorted({**shipped(), **_bundles(workspace.bundles)}.items()))


def find(name: str, workspace: Workspace) -> Path:
    """The file of a bundle, by name or by path (from the root)."""
    if name in (named := available_bundles(workspace)):
        return named[name]
    path = workspace.root / name
    if path.suffix == ".safetensors" and path.is_file():
        return path
    names = ", ".join(named) or "none"
    if name in workspace.toml_files("train"):
        raise UserError(
            f"bundle {name!r} is not trained yet: `ablate train {name}`, or, with weights from"
            f" elsewhere, `ablate bundle import WEIGHTS --recipe {name} --out"
            f" {workspace.bundles / name}.safetensors`"
        )
    hint = "".join(f"; did you mean {each!r}?" for each in nearest(name, named)[:1])
    raise UserError(f"bundle {name!r} is neither known ({names}) nor a .safetensors file{hint}")


def read_card(path: Path) -> Card:
    """The card of a bundle, without reading the weights."""
    if not path.is_file():  # a pipe would be waited for
        raise UserError(f"bundle {path}: not a file")
    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get("ablate")
        if text is None:
            raise UserError(f"bundle {path}: a safetensors file, but not one of ablate's")
        fields = json.loads(text)
        if (version := fields.get("format") if isinstance(fields, dict) else None) != FORMAT:
            raise UserError(f"bundle {path}: format {version}, this version reads {FORMAT}")
        return Card.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"bundle {path}: its card cannot be read ({one_line(error)})") from None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"bundle {path}: cannot be read ({first_line(error)})") from None


def read(path: Path) -> Bundle:
    """Read a bundle; an error if its file is damaged."""
    card, data = read_card(path), path.read_bytes()
    whole = hashlib.sha256(data).hexdigest()
    require_listed(path, whole)
    stored = load(data)  # tensors of a file that is open change with what is written over it
    if card.content not in (None, _digest(stored)):
        raise UserError(f"bundle {path}: is damaged; its bytes are not those that were written")
    for name, value in stored.items():
        if not bool(value.isfinite().all()):
            raise UserError(f"bundle {path}: {name} has values that are not finite")
    tensors = {name: value.float() for name, value in stored.items()}
    try:
        return _unpacked(card, whole[:HASH], tensors)
    except (KeyError, RuntimeError, TypeError) as error:  # a tensor missing, or of another shape
        reason = first_line(error)
        raise UserError(f"bundle {path}: its tensors do not fit its card ({reason})") from None


def _unpacked(card: Card, content_hash: str, tensors: dict[str, Tensor]) -> Bundle:
    """The bundle of a file's tensors, in float32."""
    if (pixels := tensors["everything.mean"].numel()) != math.prod(card.shape):
        raise TypeError(f"shape {card.shape} is not that of {pixels} pixels")
    everything = Gaussian(*(tensors[f"everything.{field}"] for field in Gaussian._fields))
    tensors["classes.basis"] = tensors["classes.basis"] @ everything.basis
    stacked = [tensors[f"classes.{field}"] for field in Gaussian._fields]
    classes = [Gaussian(*row) for row in zip(*stacked, strict=True)]
    moments = Moments(everything, classes, tensors["class_averages"], card.shape[0])
    model = build_model(card.shape, card.recipe, moments, card.steps)
    model.net.load_state_dict(_below("net.", tensors))
    features = _below("features.", tensors)
    mixture = Mixture(**parts) if (parts := _below("mixture.", tensors)) else None
    return Bundle(card, content_hash, model.eval(), moments, features, mixture)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names have a prefix, by the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def file_hash(path: Path) -> str:
    """The first digits of a file's SHA-256."""
    return digest(path)[:HASH]
