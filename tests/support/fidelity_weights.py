"""The FID Inception's weights in the file that torch-fidelity would download."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from ablate.metrics.extractors.inception import PARTS, STATE_DICT, _published, names


def publish_for_torch_fidelity(folder: Path) -> Path:
    """Write our weights under their names; layers for logits keep their initial values."""
    fidelity = import_module("torch_fidelity.feature_extractor_inceptionv3")
    weights = _published()
    theirs = {
        f"{name}.{PARTS[part]}": weights[f"{layer}.{part}"]
        for layer, name in names()
        for part in PARTS
    }
    initial = _untrained(fidelity).state_dict()
    fixed = {k: torch.ones_like(initial[k]) for k in initial if k.endswith("bn.weight")}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(initial | fixed | theirs, folder / STATE_DICT)
    return folder / STATE_DICT


def _untrained(fidelity: ModuleType) -> nn.Module:
    """torch-fidelity's network without its weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Module, "load_state_dict", lambda self, state, *args, **more: None)
        patch.setattr(torch, "load", lambda *args, **more: {})
        net: nn.Module = fidelity.FeatureExtractorInceptionV3(
            "inception-v3-compat", ["2048"], feature_extractor_weights_path="none"
        )
        return net
